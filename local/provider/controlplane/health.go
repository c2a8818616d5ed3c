package controlplane

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// Health keeps the condition ControlPlaneHealthy of ControlPlanes: whether the cloud controller runs. The gardenlet
// merges it into the Shoot's. ManagedResources need no condition here, since the gardenlet checks them itself.
type Health struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// SetupWithManager registers the reconciler. It acts when the Deployment changes, so nothing is polled.
func (h *Health) SetupWithManager(mgr ctrl.Manager) error {
	isOurs := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == deployment })
	return ctrl.NewControllerManagedBy(mgr).Named("controlplane-health").
		For(&extensionsv1alpha1.ControlPlane{},
			builder.WithPredicates(extension.HasTypeAndClass(v1alpha1.Type, extensionsv1alpha1.ClassShoot))).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(controlPlanesOf(h.Client)),
			builder.WithPredicates(isOurs)).
		Complete(reconcile.AsReconciler(h.Client, h))
}

// controlPlanesOf returns a function that names the ControlPlanes in the namespace of an object.
func controlPlanesOf(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		list := &extensionsv1alpha1.ControlPlaneList{}
		if err := c.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
			return nil // The cache fails only before it has started.
		}
		var out []reconcile.Request
		for i := range list.Items {
			if list.Items[i].Spec.Type == v1alpha1.Type {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
		return out
	}
}

// Reconcile sets the condition of one ControlPlane that has been reconciled at least once.
func (h *Health) Reconcile(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) (reconcile.Result, error) {
	last := cp.Status.LastOperation
	if !cp.DeletionTimestamp.IsZero() || exposure(cp) || last == nil || last.Type == corev1beta1.LastOperationTypeMigrate {
		return reconcile.Result{}, nil
	}
	d := &appsv1.Deployment{}
	err := h.Client.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: deployment}, d)
	if apierrors.IsNotFound(err) {
		d, err = nil, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read deployment %q: %w", deployment, err)
	}
	before := cp.DeepCopy()
	cp.Status.Conditions = corev1beta1.SetCondition(cp.Status.Conditions, healthy(d), h.Clock.Now())
	return reconcile.Result{}, kube.PatchStatus(ctx, h.Client, cp, before)
}

// healthy computes the condition from the Deployment, nil if there is none.
func healthy(d *appsv1.Deployment) corev1beta1.Condition {
	out := corev1beta1.Condition{Type: corev1beta1.ShootControlPlaneHealthy, Status: corev1beta1.ConditionFalse}
	switch {
	case d == nil:
		out.Reason, out.Message = "DeploymentMissing", fmt.Sprintf("Deployment %q does not exist.", deployment)
	case ptr.Deref(d.Spec.Replicas, 1) == 0:
		out.Status, out.Reason, out.Message = corev1beta1.ConditionTrue, "ControllersScaledDown",
			"The cloud controller is scaled down."
	case kube.DeploymentReady(d):
		out.Status, out.Reason, out.Message = corev1beta1.ConditionTrue, "ControlPlaneRunning", "The cloud controller runs."
	case d.Status.AvailableReplicas > 0:
		out.Status, out.Reason, out.Message = corev1beta1.ConditionProgressing, "DeploymentProgressing",
			kube.DeploymentProgress(d)
	default:
		out.Reason, out.Message = "DeploymentUnhealthy", kube.DeploymentProgress(d)
	}
	return out
}
