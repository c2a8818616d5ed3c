// Package restorable determines the point from which on the backups of a Shoot can be restored. Before its creation was
// complete, etcd contained a cluster without nodes; before the last change of the encryption it contained objects that
// can no longer be decrypted. The BackupEntry of the Shoot records the point in an annotation: it is in the garden, so
// it survives the loss of a control plane and moves to other seeds, and lives as long as the backups.
package restorable

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Point is a state of etcd that is in the backups, as the annotation hortus.dev/restorable-from has it. The zero value
// is for Shoots without a known point.
type Point struct {
	// Time is in whole seconds.
	Time time.Time
	// Revision of etcd.
	Revision int64
}

// Saved returns the point of a revision that was in the backups at a time. The time is rounded up: a request for the
// same second must not find an earlier backup.
func Saved(at time.Time, revision int64) Point {
	return Point{Time: at.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second), Revision: revision}
}

// Parse reads the annotation; an empty one is the zero Point.
func Parse(value string) (Point, error) {
	if value == "" {
		return Point{}, nil
	}
	first, second, _ := strings.Cut(value, " ")
	at, err := time.Parse(time.RFC3339, first)
	if err != nil {
		return Point{}, fmt.Errorf("annotation %s: invalid time: %q (RFC 3339)", corev1beta1.AnnotationRestorableFrom, first)
	}
	revision, err := strconv.ParseInt(second, 10, 64)
	if err != nil || revision <= 0 {
		return Point{}, fmt.Errorf("annotation %s: invalid revision: %q (a positive number)",
			corev1beta1.AnnotationRestorableFrom, second)
	}
	return Saved(at, revision), nil
}

// String is the value of the annotation.
func (p Point) String() string {
	return fmt.Sprintf("%s %d", p.Time.UTC().Format(time.RFC3339), p.Revision)
}

// IsZero reports whether no point is known.
func (p Point) IsZero() bool { return p.Revision == 0 }

// Later returns the later time and the later revision of two points: a state that could not be restored once can never
// be restored again.
func (p Point) Later(other Point) Point {
	if other.Time.After(p.Time) {
		p.Time = other.Time
	}
	p.Revision = max(p.Revision, other.Revision)
	return p
}

// Problem returns why a revision, or a time if the revision is 0, cannot be restored; "" if it can.
func (p Point) Problem(revision int64, at time.Time) string {
	switch {
	case p.IsZero():
		return "no point can be restored before the Shoot has been completely created. Reconcile it if that was with an earlier release"
	case revision > 0 && revision < p.Revision, revision == 0 && at.Before(p.Time):
		return fmt.Sprintf("points can be restored from revision %d, %s, on: before that, the Shoot was not completely created, or its etcd "+
			"was encrypted in another way", p.Revision, p.Time.UTC().Format(time.RFC3339))
	}
	return ""
}

// Of returns the point of a BackupEntry.
func Of(entry *corev1beta1.BackupEntry) (Point, error) {
	p, err := Parse(entry.Annotations[corev1beta1.AnnotationRestorableFrom])
	if err != nil {
		return Point{}, fmt.Errorf("read BackupEntry %q: %w", entry.Name, err)
	}
	return p, nil
}

// EntryName is the name of a Shoot's BackupEntry.
func EntryName(shoot *corev1beta1.Shoot) string {
	return shoot.Status.TechnicalID + "--" + string(shoot.Status.UID)
}

// Problem returns why a Shoot cannot be restored to a revision, or to a time if the revision is 0; "" if it can.
func Problem(
	ctx context.Context, garden client.Reader, shoot *corev1beta1.Shoot, revision int64, at time.Time,
) (string, error) {
	entry := &corev1beta1.BackupEntry{}
	err := garden.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: EntryName(shoot)}, entry)
	if apierrors.IsNotFound(err) {
		return "the Shoot has no backups: it has no BackupEntry", nil
	}
	if err != nil {
		return "", fmt.Errorf("read BackupEntry %q: %w", EntryName(shoot), err)
	}
	from, err := Of(entry)
	if err != nil {
		return "", err
	}
	return from.Problem(revision, at), nil
}
