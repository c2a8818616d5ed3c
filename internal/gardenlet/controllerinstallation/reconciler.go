package controllerinstallation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/reconnect"
)

const (
	finalizer       = "core.gardener.cloud/controllerinstallation"
	gardenNamespace = "garden"
	fieldOwner      = "gardenlet"
)

// Reconciler installs one extension per ControllerInstallation of its seed.
type Reconciler struct {
	Garden   client.Client // Cached reads, direct writes.
	Seed     client.Client
	Clock    clock.PassiveClock
	SeedName string
	// GardenIdentity returns the identity of the garden, for extensions.
	GardenIdentity func(context.Context) (string, error)
	// FeatureGates of the gardenlet are passed to extensions.
	FeatureGates map[string]bool
	// Charts pulls the charts that are in registries.
	Charts *oci.Puller
	// Server is the address of the garden for extensions with access to it.
	Server Server
	// Capabilities returns what the seed offers to charts.
	Capabilities func(context.Context) (chart.Capabilities, error)
}

// Server is the address of the garden.
type Server interface {
	// Garden returns a kubeconfig for the garden without credentials.
	Garden(ctx context.Context) (pki.Kubeconfig, error)
}

// AddToManager registers the controller. The manager's cache is for the garden.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, seed cluster.Cluster, concurrency int) error {
	own := predicate.NewPredicateFuncs(func(o client.Object) bool {
		ref := o.(*corev1beta1.ControllerInstallation).Spec.SeedRef
		return ref != nil && ref.Name == r.SeedName
	})
	all := handler.EnqueueRequestsFromMapFunc(r.ofSeed)
	return ctrl.NewControllerManagedBy(mgr).
		Named("controllerinstallation").
		For(&corev1beta1.ControllerInstallation{}, builder.WithPredicates(own)).
		Watches(&corev1v1.ControllerDeployment{}, all).
		Watches(&corev1beta1.ControllerRegistration{}, all).
		WatchesRawSource(source.Kind(seed.GetCache(), &resourcesv1alpha1.ManagedResource{},
			handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context,
				mr *resourcesv1alpha1.ManagedResource) []reconcile.Request {
				if mr.Namespace != gardenNamespace {
					return nil
				}
				return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: mr.Name}}}
			}))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency, RateLimiter: reconnect.RateLimiter(),
		}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// ofSeed lists all installations of the seed, for changes of what they are made from.
func (r *Reconciler) ofSeed(ctx context.Context, _ client.Object) []reconcile.Request {
	var list corev1beta1.ControllerInstallationList
	if err := r.Garden.List(ctx, &list, client.MatchingFields{"spec.seedRef.name": r.SeedName}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list ControllerInstallations")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if ref := list.Items[i].Spec.SeedRef; ref != nil && ref.Name == r.SeedName {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile reconciles one installation. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(
	ctx context.Context, installation *corev1beta1.ControllerInstallation,
) (res reconcile.Result, err error) {
	if ref := installation.Spec.SeedRef; ref == nil || ref.Name != r.SeedName {
		return res, nil
	}
	if !installation.DeletionTimestamp.IsZero() {
		return r.delete(ctx, installation)
	}
	if err := kube.EnsureFinalizer(ctx, r.Garden, installation, finalizer); err != nil {
		return res, err
	}
	before := installation.DeepCopy()
	var o observed
	defer func() {
		installation.Status.Conditions = conditionsFor(installation.Status.Conditions, o, r.Clock.Now())
		err = errors.Join(err, kube.PatchStatus(ctx, r.Garden, installation, before))
	}()
	secret, mr, err := r.resource(ctx, installation, &o)
	if errors.Is(err, reconcile.TerminalError(nil)) {
		// The condition Valid reports it. Whether the extension is in use may change all the same, which is not watched.
		ctrl.LoggerFrom(ctx).V(1).Info("Extension cannot be installed", "reason", err.Error())
		return o.next(), nil
	}
	if err != nil {
		return res, err
	}
	for _, object := range []client.Object{secret, mr} {
		if err := kube.Apply(ctx, r.Seed, object, fieldOwner); err != nil {
			_ = o.fail("ManagedResourceApplyError", o.withoutValues(err))
			return res, err
		}
	}
	o.resource = mr
	return o.next(), nil
}

// resource returns what the resource-manager of the seed is to apply. Problems are put into o.
func (r *Reconciler) resource(
	ctx context.Context, installation *corev1beta1.ControllerInstallation, o *observed,
) (*corev1.Secret, *resourcesv1alpha1.ManagedResource, error) {
	objects, err := r.objects(ctx, installation, o)
	if err != nil {
		return nil, nil, err
	}
	secret, mr, err := managedresource.ForSeed(r.Seed.Scheme(), gardenNamespace, installation.Name, objects...)
	if err != nil {
		return nil, nil, reconcile.TerminalError(o.fail("ChartCannotBeRendered", err))
	}
	return secret, mr, nil
}

// objects reads the chart and the values of the extension and renders them. Problems are put into o.
func (r *Reconciler) objects(
	ctx context.Context, installation *corev1beta1.ControllerInstallation, o *observed,
) ([]client.Object, error) {
	registration := &corev1beta1.ControllerRegistration{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: installation.Spec.RegistrationRef.Name}, registration); err != nil {
		return nil, o.fail("RegistrationReadError",
			fmt.Errorf("read ControllerRegistration %q: %w", installation.Spec.RegistrationRef.Name, err))
	}
	o.unregistered = registration.DeletionTimestamp != nil
	usedBy, err := r.usedBy(ctx, registration)
	if err != nil {
		return nil, o.fail("ExtensionObjectsReadError", err)
	}
	o.usedBy = &usedBy
	seed := &corev1beta1.Seed{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: r.SeedName}, seed); err != nil {
		return nil, o.fail("SeedReadError", fmt.Errorf("read Seed %q: %w", r.SeedName, err))
	}
	if installation.Spec.DeploymentRef == nil {
		return nil, reconcile.TerminalError(o.fail("ChartInformationInvalid", errNoChart))
	}
	deployment := &corev1v1.ControllerDeployment{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: installation.Spec.DeploymentRef.Name}, deployment); err != nil {
		return nil, o.fail("ChartInformationInvalid",
			fmt.Errorf("read ControllerDeployment %q: %w", installation.Spec.DeploymentRef.Name, err))
	}
	pulled, err := r.chart(ctx, installation, deployment)
	if err != nil {
		return nil, o.fail(reasonNotPulled, err)
	}
	if pulled.Stale != nil {
		// The extension stays usable, with changes of its values, and operators see that its chart may be outdated.
		_ = o.fail(reasonNotPulled, pulled.Stale)
	}
	values, err := r.values(ctx, deployment)
	if err != nil {
		return nil, o.fail("RenderingHelmValuesFailed", err)
	}
	o.secretValues = values.public != nil
	access, err := r.access(ctx, installation, deployment)
	if err != nil {
		return nil, o.fail("GardenAccessError", err)
	}
	capabilities, err := r.Capabilities(ctx)
	if err != nil {
		return nil, o.fail("CapabilitiesReadError", err)
	}
	identity, err := r.GardenIdentity(ctx)
	if err != nil {
		return nil, o.fail("GardenIdentityReadError", err)
	}
	objects, err := renderPublic(values, func(values map[string]any) ([]client.Object, error) {
		return render(pulled.Archive, installation, registration, values, seed, identity, r.FeatureGates, capabilities,
			access)
	})
	if err != nil {
		return nil, reconcile.TerminalError(o.fail("ChartCannotBeRendered", err))
	}
	if access == nil {
		if err := r.endAccess(ctx, installation); err != nil {
			return nil, o.fail("GardenAccessError", err)
		}
	}
	return objects, nil
}

// delete removes the extension once nothing in the seed needs it; the finalizer is removed last.
func (r *Reconciler) delete(
	ctx context.Context, installation *corev1beta1.ControllerInstallation,
) (reconcile.Result, error) {
	registration := &corev1beta1.ControllerRegistration{}
	err := r.Garden.Get(ctx, client.ObjectKey{Name: installation.Spec.RegistrationRef.Name}, registration)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read ControllerRegistration %q: %w", installation.Spec.RegistrationRef.Name,
			err)
	}
	usedBy, err := r.usedBy(ctx, registration)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := installation.DeepCopy()
	status := &installation.Status
	was := corev1beta1.FindCondition(status.Conditions, corev1beta1.ControllerInstallationRequired)
	if usedBy != "" || was != nil && was.Status != corev1beta1.ConditionFalse {
		// The rest follows when the installation with the new condition is seen.
		status.Conditions = corev1beta1.SetCondition(status.Conditions, required(usedBy), r.Clock.Now())
		return reconcile.Result{RequeueAfter: removalPeriod}, kube.PatchStatus(ctx, r.Garden, installation, before)
	}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
		Namespace: gardenNamespace, Name: installation.Name,
	}}
	if gone, err := kube.Delete(ctx, r.Seed, mr); err != nil || !gone {
		return reconcile.Result{}, err // Its deletion triggers the next reconciliation.
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: gardenNamespace, Name: managedresource.SecretName(installation.Name),
	}}
	if _, err := kube.Delete(ctx, r.Seed, secret); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.deleteAccounts(ctx, installation); err != nil {
		return reconcile.Result{}, err
	}
	r.Charts.Forget(installation.Name)
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, installation, finalizer)
}
