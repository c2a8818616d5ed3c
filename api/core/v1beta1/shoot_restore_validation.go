package v1beta1

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// ParseRestorePoint reads the annotation hortus.dev/restore-backup: revision=N or time=T (RFC 3339). One of the results
// is zero.
func ParseRestorePoint(value string) (revision int64, at time.Time, err error) {
	kind, point, _ := strings.Cut(strings.TrimSpace(value), "=")
	switch kind {
	case "revision":
		if revision, err = strconv.ParseInt(point, 10, 64); err == nil && revision > 0 {
			return revision, time.Time{}, nil
		}
	case "time":
		if at, err = time.Parse(time.RFC3339, point); err == nil {
			return 0, at.UTC(), nil
		}
	}
	return 0, time.Time{}, fmt.Errorf("must be revision=NUMBER or time=2026-01-31T15:04:05Z (RFC 3339)")
}

// validateRestore checks a request to restore a backup when it is made.
func validateRestore(shoot, old *Shoot) field.ErrorList {
	path, value := annotationsPath.Key(AnnotationRestoreBackup), shoot.Annotations[AnnotationRestoreBackup]
	if value == "" || old != nil && old.Annotations[AnnotationRestoreBackup] == value {
		return nil
	}
	if _, _, err := ParseRestorePoint(value); err != nil {
		return field.ErrorList{field.Invalid(path, value, err.Error())}
	}
	if why := restoreImpossible(shoot); why != "" {
		return field.ErrorList{field.Forbidden(path, why)}
	}
	return nil
}

// restoreImpossible returns why a Shoot cannot be restored, and what to do.
func restoreImpossible(shoot *Shoot) string {
	switch cp := shoot.Spec.ControlPlane; {
	case shoot.DeletionTimestamp != nil:
		return "the Shoot is being deleted"
	case shoot.Status.TechnicalID == "":
		return "the Shoot has no control plane yet. Wait until it has been created"
	case shoot.HibernationEnabled() || shoot.Status.IsHibernated:
		return "the Shoot is hibernated. Wake it up first"
	case ptr.Deref(shoot.Status.SeedName, "") != ptr.Deref(shoot.Spec.SeedName, ""):
		return "the control plane is being moved to another Seed. Wait until it has arrived"
	case cp != nil && cp.HighAvailability != nil:
		return "control planes with a failure tolerance cannot be restored yet: etcd has several members"
	}
	phases, r := map[string]CredentialsRotationPhase{"etcd encryption key": etcdKeyPhase(shoot)}, rotationOf(shoot)
	if r.CertificateAuthorities != nil {
		phases["certificate authorities"] = r.CertificateAuthorities.Phase
	}
	if r.ServiceAccountKey != nil {
		phases["service account key"] = r.ServiceAccountKey.Phase
	}
	for _, credential := range []string{"certificate authorities", "service account key", "etcd encryption key"} {
		if rotating(phases[credential]) {
			return fmt.Sprintf("the rotation of the %s is %s. Complete it first", credential, phases[credential])
		}
	}
	return ""
}
