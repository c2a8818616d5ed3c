package csr

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// reason is that of the conditions on requests.
const reason = "HortusControllerManager"

// Reconciler approves or denies requests.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
	// Direct reads Seeds: a decision on a stale cache would be wrong for good.
	Direct client.Reader
	Clock  clock.PassiveClock
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("csr-approver").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			request, ok := o.(*certificatesv1.CertificateSigningRequest)
			return ok && ours(request)
		}))).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("create CSR approver: %w", err)
	}
	return nil
}

// Reconcile decides about one request.
func (r *Reconciler) Reconcile(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (reconcile.Result, error) {
	if !ours(request) {
		return reconcile.Result{}, nil
	}
	registered := false
	if name := seedOf(request); name != "" {
		err := r.Direct.Get(ctx, client.ObjectKey{Name: name}, &corev1beta1.Seed{})
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("read Seed %q: %w", name, err)
		}
		registered = err == nil
	}
	kind := certificatesv1.CertificateDenied
	approved, message := decide(request, registered)
	if approved {
		kind = certificatesv1.CertificateApproved
	}
	now := metav1.NewTime(r.Clock.Now())
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now})
	ctrl.LoggerFrom(ctx).Info("Decided", "decision", kind, "requester", request.Spec.Username, "reason", message)
	err := r.Garden.SubResource("approval").Update(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // The newer request is on its way.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("update approval: %w", err)
	}
	return reconcile.Result{}, nil
}
