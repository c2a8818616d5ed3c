// Package managedseed maintains the labels with which gardenlets select ManagedSeeds and the Seeds that these create.
//
// Trigger: ManagedSeeds, and their Shoots when they are scheduled or moved. Writes: no fields of its own. The API
// server sets the labels on every write, so that nobody can forge them; the controller triggers that with an empty
// patch.
package managedseed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// IndexShoot finds ManagedSeeds by the name of their Shoot.
const IndexShoot = "spec.shoot.name"

// Reconciler triggers an update of labels that no longer name the Seeds which run the Shoot.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &seedmanagementv1alpha1.ManagedSeed{}, IndexShoot,
		ShootOf); err != nil {
		return fmt.Errorf("index ManagedSeeds: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("managedseed-labels").
		For(&seedmanagementv1alpha1.ManagedSeed{}).
		Watches(&corev1beta1.Shoot{}, handler.EnqueueRequestsFromMapFunc(r.ofShoot), builder.WithPredicates(moved)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("create ManagedSeed controller: %w", err)
	}
	return nil
}

// ShootOf returns the values of the index.
func ShootOf(o client.Object) []string {
	if shoot := o.(*seedmanagementv1alpha1.ManagedSeed).Spec.Shoot; shoot != nil {
		return []string{shoot.Name}
	}
	return nil
}

// moved passes Shoots of the namespace garden that are scheduled or moved. Shoots elsewhere cannot be Seeds.
var moved = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false }, // ManagedSeeds are reconciled when the controller starts.
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, was := e.ObjectOld.(*corev1beta1.Shoot)
		now, is := e.ObjectNew.(*corev1beta1.Shoot)
		return was && is && now.Namespace == corev1beta1.GardenNamespace &&
			(!ptr.Equal(old.Spec.SeedName, now.Spec.SeedName) || !ptr.Equal(old.Status.SeedName, now.Status.SeedName))
	},
}

// ofShoot returns the ManagedSeed of a Shoot.
func (r *Reconciler) ofShoot(ctx context.Context, shoot client.Object) []reconcile.Request {
	return kube.RequestsFor(ctx, r.Garden, &seedmanagementv1alpha1.ManagedSeedList{},
		client.InNamespace(shoot.GetNamespace()), client.MatchingFields{IndexShoot: shoot.GetName()},
		client.UnsafeDisableDeepCopy)
}

// Reconcile compares the labels of a ManagedSeed and of its Seed with the Seeds that run the Shoot.
func (r *Reconciler) Reconcile(
	ctx context.Context, managed *seedmanagementv1alpha1.ManagedSeed,
) (reconcile.Result, error) {
	if managed.DeletionTimestamp != nil || managed.Spec.Shoot == nil {
		return reconcile.Result{}, nil
	}
	shoot := &corev1beta1.Shoot{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Namespace: managed.Namespace, Name: managed.Spec.Shoot.Name},
		shoot); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	seed := &corev1beta1.Seed{}
	seedErr := client.IgnoreNotFound(r.Garden.Get(ctx, client.ObjectKey{Name: managed.Name}, seed))
	errs := []error{seedErr, r.write(ctx, managed, shoot.Spec.SeedName, shoot.Status.SeedName)}
	if seed.Name != "" && seed.DeletionTimestamp == nil {
		errs = append(errs, r.write(ctx, seed, &seed.Name, shoot.Spec.SeedName))
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// write makes the API server set the labels if they do not name the given Seeds. It returns an error, to be retried, if
// the labels are still wrong: the API server may not have observed the move of the Shoot either.
func (r *Reconciler) write(ctx context.Context, object client.Object, seeds ...*string) error {
	if named(object, seeds) {
		return nil
	}
	if err := r.Garden.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{}`))); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !named(object, seeds) {
		return fmt.Errorf("the labels of %T %q do not name the Seeds yet that the Shoot is on", object, object.GetName())
	}
	return nil
}

// named reports whether the labels name these Seeds and no others.
func named(object client.Object, seeds []*string) bool {
	var want []string
	for _, seed := range seeds {
		if ptr.Deref(seed, "") != "" {
			want = append(want, *seed)
		}
	}
	var have []string
	for key := range object.GetLabels() {
		if seed, ok := strings.CutPrefix(key, corev1beta1.LabelPrefixSeedName); ok {
			have = append(have, seed)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	return slices.Equal(slices.Compact(want), have)
}
