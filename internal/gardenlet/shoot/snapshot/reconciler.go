// Package snapshot takes full snapshots of Shoots' etcds on request, by the annotation hortus.dev/take-backup.
//
// A snapshot is one request to the process that takes the backups, which answers when the snapshot is stored. The
// result, success or failure, is reported as an event, and the annotation is removed; another attempt needs another
// request. While the API server of the seed does not answer, the request waits. If the gardenlet restarts in between,
// the snapshot is taken once more, which does no harm.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/kube"
)

const (
	// timeout bounds one snapshot: a database has 8 GiB at most.
	timeout = 10 * time.Minute
	// concurrency bounds how many databases are read at the same time.
	concurrency = 3
)

// Connector connects to the process that takes the backups of an etcd.
type Connector interface {
	TakeBackup(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Snapshot, error)
}

// Reconciler takes the snapshots requested by owners of the Shoots of one seed.
type Reconciler struct {
	Garden   client.Client // Direct reads and writes.
	Seed     client.Client // Direct reads.
	Shoots   Connector
	Events   events.EventRecorder
	SeedName string
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	requested := predicate.NewPredicateFuncs(func(o client.Object) bool {
		_, ok := o.GetAnnotations()[corev1beta1.AnnotationTakeBackup]
		return ok
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("shoot-snapshot").
		For(&corev1beta1.Shoot{}, builder.WithPredicates(requested)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile takes one snapshot if requested.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), shoot); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	request, requested := shoot.Annotations[corev1beta1.AnnotationTakeBackup]
	seed := ptr.Deref(shoot.Status.SeedName, ptr.Deref(shoot.Spec.SeedName, ""))
	if !requested || seed != r.SeedName {
		return reconcile.Result{}, nil
	}
	access, impossible, err := r.access(ctx, shoot)
	if err != nil {
		return reconcile.Result{}, err
	}
	var taken etcdbackup.Snapshot
	if err = impossible; err == nil {
		taken, err = r.take(ctx, access)
	}
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err() // The gardenlet is stopping; the next one takes the snapshot.
	}
	if err != nil {
		r.Events.Eventf(shoot, nil, corev1.EventTypeWarning, corev1beta1.EventBackupFailed, "Backup",
			"No full snapshot of etcd was taken: %v", err)
	} else {
		r.Events.Eventf(shoot, nil, corev1.EventTypeNormal, corev1beta1.EventBackupTaken, "Backup",
			"A full snapshot of etcd at revision %d has been stored.", taken.Revision)
	}
	return reconcile.Result{}, kube.RemoveAnnotation(ctx, r.Garden, shoot, corev1beta1.AnnotationTakeBackup, request)
}

var errNoControlPlane = errors.New("the control plane has not been created yet")

// access returns how to connect to the process that takes the backups. Problems that another attempt does not solve are
// impossible; err is for those of the seed's API server.
func (r *Reconciler) access(
	ctx context.Context, shoot *corev1beta1.Shoot,
) (access steps.EtcdAccess, impossible, err error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: shoot.Status.TechnicalID, Name: etcd.Name}}
	if set.Namespace == "" {
		return access, errNoControlPlane, nil
	}
	found, err := kube.Exists(ctx, r.Seed, set)
	switch {
	case err != nil:
		return access, nil, err
	case !found:
		return access, errNoControlPlane, nil
	case ptr.Deref(set.Spec.Replicas, 0) == 0:
		return access, errors.New("the Shoot is hibernated, and everything is in its backups already"), nil
	}
	access, ok, err := steps.BackupAccess(ctx, r.Seed, set)
	switch {
	case err != nil:
		return access, nil, err
	case !ok:
		return access, fmt.Errorf("the Shoot has no backups, because Seed %q has none", r.SeedName), nil
	}
	return access, nil, nil
}

func (r *Reconciler) take(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.Shoots.TakeBackup(ctx, access)
}
