package stale

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// NameOfActivity is the name of the controller Activity.
const NameOfActivity = "project-activity"

// resolution of lastActivityTimestamp, so that a busy project costs one write per hour. Objects up to this age count as
// new: at the start of the controller, all objects are reported as created.
const resolution = time.Hour

// Activity records the time of the last activity in the namespace of a Project. Activities trigger it, changes of the
// Project do not.
type Activity struct {
	Garden client.Client // Cached reads, direct writes.
	Clock  clock.PassiveClock
}

// SetupWithManager registers the controller.
func (r *Activity) SetupWithManager(mgr ctrl.Manager) error {
	project := handler.EnqueueRequestsFromMapFunc(r.projectOf)
	b := ctrl.NewControllerManagedBy(mgr).Named(NameOfActivity).
		Watches(&corev1beta1.Shoot{}, project, builder.WithPredicates(r.happenings(true)))
	for _, kind := range []client.Object{
		&corev1beta1.BackupEntry{}, &corev1beta1.Quota{}, &corev1beta1.SecretBinding{},
		&securityv1alpha1.CredentialsBinding{},
	} {
		b = b.Watches(kind, project, builder.WithPredicates(r.happenings(false)))
	}
	return b.Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// happenings passes new objects and, with changes, also deletions and changes of the spec.
func (r *Activity) happenings(changes bool) predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return r.Clock.Since(e.Object.GetCreationTimestamp().Time) < resolution
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			return changes && e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return changes },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Reconcile records an activity.
func (r *Activity) Reconcile(ctx context.Context, p *corev1beta1.Project) (reconcile.Result, error) {
	now, last := r.Clock.Now(), p.Status.LastActivityTimestamp
	if p.DeletionTimestamp != nil || last != nil && now.Sub(last.Time) < resolution {
		return reconcile.Result{}, nil
	}
	before := p.DeepCopy()
	p.Status.LastActivityTimestamp = &metav1.Time{Time: now}
	return reconcile.Result{}, kube.PatchStatus(ctx, r.Garden, p, before)
}

// projectOf maps an object to the Project of its namespace.
func (r *Activity) projectOf(ctx context.Context, o client.Object) []reconcile.Request {
	ns := &corev1.Namespace{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: o.GetNamespace()}, ns); err != nil ||
		ns.Labels[corev1beta1.LabelProjectName] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: ns.Labels[corev1beta1.LabelProjectName]}}}
}
