package csr

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/csr"
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
		For(&certificatesv1.CertificateSigningRequest{},
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
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
func (r *Reconciler) Reconcile(
	ctx context.Context, request *certificatesv1.CertificateSigningRequest,
) (reconcile.Result, error) {
	if !ours(request) {
		return reconcile.Result{}, nil
	}
	name := seedOf(request)
	err := r.Direct.Get(ctx, client.ObjectKey{Name: name}, &corev1beta1.Seed{})
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read Seed %q: %w", name, err)
	}
	approved, message := decide(request, err == nil)
	d := csr.Decision{Approved: approved, Reason: reason, Message: message}
	return reconcile.Result{}, csr.Write(ctx, r.Garden, request, d, r.Clock.Now())
}
