package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/gardenletchart"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/reconnect"
)

const (
	fieldOwner = "gardenlet"
	// name of the ManagedResource.
	name      = gardenletchart.Name
	namespace = gardenletchart.Namespace

	// syncPeriod is the pause between two looks at a chart whose tag may name another one.
	syncPeriod = time.Hour
)

// Charts are those in registries.
type Charts interface {
	// Pull returns the archive of an owner's chart, which may be kept in memory until Forget is called.
	Pull(ctx context.Context, owner string, source oci.Source) (oci.Chart, error)
	Forget(owner string)
}

// Reconciler updates the gardenlet that it is part of.
type Reconciler struct {
	Garden   client.Client // Direct reads and writes.
	Seed     client.Client // Direct reads and writes.
	Clock    clock.PassiveClock
	SeedName string
	Charts   Charts
	// Capabilities returns what the seed offers to charts.
	Capabilities func(context.Context) (chart.Capabilities, error)
}

// AddToManager registers the controller. The manager's cache is for the garden, and holds the Gardenlet and the Seed of
// the same name only.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster) error {
	own := []reconcile.Request{{NamespacedName: client.ObjectKey{
		Namespace: corev1beta1.GardenNamespace, Name: r.SeedName,
	}}}
	always := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return own })
	ofResource := handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, mr *resourcesv1alpha1.ManagedResource) []reconcile.Request {
			if mr.Namespace != namespace || mr.Name != name {
				return nil
			}
			return own
		})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("gardenlet").
		Watches(&seedmanagementv1alpha1.Gardenlet{}, always, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// The Seed exists, so there is a first request even without a Gardenlet.
		Watches(&corev1beta1.Seed{}, always, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind(seed.GetCache(), &resourcesv1alpha1.ManagedResource{}, ofResource)).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("add controller of Gardenlets: %w", err)
	}
	return nil
}

// Reconcile passes the gardenlet that is wanted to the seed's resource-manager, or releases the present one. It may
// stop after any write and be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	gardenlet := &seedmanagementv1alpha1.Gardenlet{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name},
	}
	wanted, err := kube.Exists(ctx, r.Garden, gardenlet)
	if err != nil {
		return reconcile.Result{}, err
	}
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: r.SeedName}}
	found, err := kube.Exists(ctx, r.Garden, seed)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !wanted || gardenlet.DeletionTimestamp != nil || !found || seed.DeletionTimestamp != nil {
		return reconcile.Result{}, r.release(ctx)
	}
	waits, err := r.update(ctx, gardenlet)
	reportErr := gardenletchart.Report(ctx, r.Garden, gardenlet, reconciled(waits, err), r.Clock.Now())
	if errors.As(err, new(invalid)) {
		ctrl.LoggerFrom(ctx).V(1).Info("The gardenlet cannot be rendered", "reason", err.Error()) // The condition reports it.
		err = nil
	}
	if err := errors.Join(err, reportErr); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: syncPeriod}, nil // Changes of the ManagedResource trigger earlier ones.
}

// update passes the gardenlet to the seed's resource-manager, and returns what it is waiting for; empty if the
// gardenlet runs as wanted.
func (r *Reconciler) update(ctx context.Context, gardenlet *seedmanagementv1alpha1.Gardenlet) (string, error) {
	const path = "spec.deployment.helm.ociRepository"
	from, err := oci.SourceOf(ctx, r.Garden, &gardenlet.Spec.Deployment.Helm.OCIRepository)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	pulled, err := r.Charts.Pull(ctx, gardenlet.Name, from)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	access, err := r.access(ctx)
	if err != nil {
		return "", err
	}
	capabilities, err := r.Capabilities(ctx)
	if err != nil {
		return "", err
	}
	objects, err := render(pulled.Archive, gardenlet, access, capabilities)
	if err != nil {
		return "", invalid{err}
	}
	secret, mr, err := managedresource.ForSeed(r.Seed.Scheme(), namespace, name, objects...)
	if err != nil {
		return "", err
	}
	mr.Spec.KeepObjects = ptr.To(true) // Whoever deletes it, the gardenlet stays.
	for _, o := range []client.Object{secret, mr} {
		if err := kube.Apply(ctx, r.Seed, o, fieldOwner); err != nil {
			return "", err
		}
	}
	if ready, why := managedresource.Ready(mr, managedresource.Checksum(secret)); !ready {
		return why, nil
	}
	if pulled.Stale != nil { // What the tag last named runs; whether that is still wanted is not known.
		return "", fmt.Errorf("%s: %w", path, pulled.Stale)
	}
	return "", nil
}

// invalid is an error that stays until the spec or the chart has changed.
type invalid struct{ error }

// access returns the access that the present gardenlet was installed with.
func (r *Reconciler) access(ctx context.Context) (gardenletchart.Access, error) {
	a, err := gardenletchart.AccessIn(ctx, r.Seed)
	if err == nil && a.Text == "" {
		err = fmt.Errorf("the seed has neither Secret %s/%s nor %s, with which the chart installs a gardenlet", namespace,
			gardenletchart.Accesses[0].Secret, gardenletchart.Accesses[1].Secret)
	}
	return a, err
}

func resource() *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// Released reports whether no ManagedResource of the gardenlet is left in a seed.
func Released(ctx context.Context, seed client.Reader) (bool, error) {
	found, err := kube.Exists(ctx, seed, resource())
	return !found, err
}

// release deletes the ManagedResource. The gardenlet and its objects stay.
func (r *Reconciler) release(ctx context.Context) error {
	mr := resource()
	if gone, err := kube.Delete(ctx, r.Seed, mr); err != nil || !gone {
		return err // Its deletion triggers the next reconciliation.
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: managedresource.SecretName(name)}}
	if _, err := kube.Delete(ctx, r.Seed, secret); err != nil {
		return err
	}
	r.Charts.Forget(r.SeedName)
	return nil
}

// reconciled is whether the gardenlet is as the Gardenlet says. waits is what that waits for; empty for nothing.
func reconciled(waits string, err error) corev1beta1.Condition {
	c := corev1beta1.Condition{Type: seedmanagementv1alpha1.GardenletReconciled, Status: corev1beta1.ConditionFalse}
	switch {
	case err != nil:
		c.Reason, c.Message = corev1beta1.EventReconcileError, err.Error()
	case waits != "":
		c.Reason, c.Message = corev1beta1.EventReconciling, "The gardenlet is being changed: "+waits
	default:
		c.Status, c.Reason = corev1beta1.ConditionTrue, corev1beta1.EventReconciled
		c.Message = "The gardenlet is as the spec says."
	}
	return c
}
