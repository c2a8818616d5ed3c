package gardencertificate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// checkPeriod is the maximum time between checks of the Secret, which is not watched. A day is short compared to the 73
// days between the renewal and the end of a certificate.
const checkPeriod = 24 * time.Hour

// Reconciler renews the certificates.
type Reconciler struct {
	Garden client.Client // Direct reads and writes of Secrets.
	Clock  clock.PassiveClock
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	once := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: key})
		return nil
	})
	if err := ctrl.NewControllerManagedBy(mgr).Named("garden-certificate").WatchesRawSource(once).
		Complete(r); err != nil {
		return fmt.Errorf("create controller of the garden's certificates: %w", err)
	}
	return nil
}

var key = client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: SecretName}

// Reconcile renews the certificates that are due.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := r.Garden.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read Secret %s: %w", key, err)
	}
	before := secret.DeepCopy()
	data, next, err := renew(secret.Data, r.Clock)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("renew certificates in Secret %s: %w", key, err)
	}
	secret.Data = data
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if changes, err := client.MergeFrom(before).Data(secret); err != nil {
		return reconcile.Result{}, fmt.Errorf("compare Secret %s: %w", key, err)
	} else if string(changes) != "{}" {
		if err := r.Garden.Patch(ctx, secret, patch); err != nil {
			return reconcile.Result{}, fmt.Errorf("write Secret %s: %w", key, err)
		}
		log.FromContext(ctx).Info("Renewed certificates of the garden", "secret", key, "next", next)
	}
	if next.IsZero() {
		return reconcile.Result{RequeueAfter: checkPeriod}, nil
	}
	return reconcile.Result{RequeueAfter: min(max(next.Sub(r.Clock.Now()), time.Minute), checkPeriod)}, nil
}
