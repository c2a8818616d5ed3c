package bastion

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// indexShoot finds Bastions by the name of their Shoot.
const indexShoot = "spec.shootRef.name"

// Reconciler deletes Bastions, and releases those whose seed is gone.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
	// Live decides about deletions: a cache may not have seen a new Shoot, or the last sign of life.
	Live  client.Reader
	Clock clock.PassiveClock
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &operationsv1alpha1.Bastion{}, indexShoot,
		func(o client.Object) []string {
			return []string{o.(*operationsv1alpha1.Bastion).Spec.ShootRef.Name}
		}); err != nil {
		return fmt.Errorf("index Bastions: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("bastion").
		For(&operationsv1alpha1.Bastion{}).
		Watches(&corev1beta1.Shoot{}, handler.EnqueueRequestsFromMapFunc(r.ofShoot), builder.WithPredicates(leaves)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("create Bastion controller: %w", err)
	}
	return nil
}

// leaves passes Shoots that cannot have their Bastions any more.
var leaves = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false }, // Bastions are reconciled when the controller starts.
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, was := e.ObjectOld.(*corev1beta1.Shoot)
		now, is := e.ObjectNew.(*corev1beta1.Shoot)
		return was && is && (!ptr.Equal(old.Spec.SeedName, now.Spec.SeedName) ||
			!ptr.Equal(old.Status.SeedName, now.Status.SeedName) || old.SourceIsDead() != now.SourceIsDead() ||
			(old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) || old.SSHAccess() != now.SSHAccess())
	},
}

// ofShoot returns the Bastions of a Shoot.
func (r *Reconciler) ofShoot(ctx context.Context, shoot client.Object) []reconcile.Request {
	return kube.RequestsFor(ctx, r.Garden, &operationsv1alpha1.BastionList{}, client.InNamespace(shoot.GetNamespace()),
		client.MatchingFields{indexShoot: shoot.GetName()}, client.UnsafeDisableDeepCopy)
}

// Reconcile deletes a Bastion, or looks at it again when it expires.
func (r *Reconciler) Reconcile(ctx context.Context, bastion *operationsv1alpha1.Bastion) (reconcile.Result, error) {
	if bastion.DeletionTimestamp != nil {
		return reconcile.Result{}, r.release(ctx, bastion)
	}
	shoot, err := shootOf(ctx, r.Garden, bastion)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	if d := decide(bastion, shoot, now); d.Reason == "" {
		return reconcile.Result{RequeueAfter: d.CheckAt.Sub(now)}, nil
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(bastion), bastion); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if bastion.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if shoot, err = shootOf(ctx, r.Live, bastion); err != nil {
		return reconcile.Result{}, err
	}
	d := decide(bastion, shoot, now)
	if d.Reason == "" {
		return reconcile.Result{RequeueAfter: d.CheckAt.Sub(now)}, nil
	}
	log.FromContext(ctx).Info("Deleting Bastion", "reason", d.Reason)
	err = r.Garden.Delete(ctx, bastion, client.Preconditions{
		UID: &bastion.UID, ResourceVersion: &bastion.ResourceVersion, // A sign of life in between counts.
	})
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("delete Bastion: %w", err)
	}
	return reconcile.Result{}, nil
}

// release removes the gardenlet's finalizer from a Bastion in deletion whose seed has lost the control plane: the
// gardenlet of a seed that is gone cannot do so.
func (r *Reconciler) release(ctx context.Context, bastion *operationsv1alpha1.Bastion) error {
	if !controllerutil.ContainsFinalizer(bastion, corev1beta1.FinalizerName) {
		return nil
	}
	shoot, err := shootOf(ctx, r.Live, bastion)
	if err != nil || !abandoned(bastion, shoot) {
		return err
	}
	return kube.RemoveFinalizer(ctx, r.Garden, bastion, corev1beta1.FinalizerName)
}

// shootOf returns the Shoot of a Bastion, nil if it does not exist.
func shootOf(
	ctx context.Context, c client.Reader, bastion *operationsv1alpha1.Bastion,
) (*corev1beta1.Shoot, error) {
	shoot := &corev1beta1.Shoot{}
	err := c.Get(ctx, client.ObjectKey{Namespace: bastion.Namespace, Name: bastion.Spec.ShootRef.Name}, shoot)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Shoot %q: %w", bastion.Spec.ShootRef.Name, err)
	}
	return shoot, nil
}
