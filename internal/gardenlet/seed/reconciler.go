package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/kube"
)

// fieldOwner owns the fields that are applied to the seed.
const fieldOwner = "gardenlet-seed"

// unreadyPeriod is the time after which a Seed that is not ready is checked again: new Shoots wait for it.
const unreadyPeriod = 2 * time.Second

// Reconciler maintains one Seed.
type Reconciler struct {
	Garden    client.Client // Direct reads and writes.
	Cache     client.Reader // Has the Shoots of the seed.
	Seed      client.Client // Direct reads and writes.
	Discovery discovery.ServerVersionInterface
	Clock     clock.PassiveClock
	// Alive reports whether the Lease of the Seed is being renewed; nothing else makes GardenletReady True.
	Alive func() bool
	// CertificateNotAfter returns when the gardenlet's certificate for the garden expires; nil if it is not known.
	CertificateNotAfter func() *metav1.Time

	Config   *config.GardenletConfiguration
	Gardener corev1beta1.Gardener
	// Image contains all components of Hortus.
	Image string
	// Definitions and Policies are applied to the seed, Placeholders unless somebody has installed the kinds. They are
	// not changed.
	Definitions, Placeholders []*apiextensionsv1.CustomResourceDefinition
	Policies                  []*unstructured.Unstructured

	// applied are the applied Definitions, which are large and hardly ever change.
	applied kube.ApplyCache
}

// scope is what one reconcile has read so far.
type scope struct {
	seed *corev1beta1.Seed
	observed
	// left is what the deletion of the Seed waits for.
	left left
	// leftErr says why that is not known.
	leftErr error
	// bucketErr says why the BackupBucket could not be created. Existing control planes are not affected.
	bucketErr error
}

// Reconcile prepares the cluster and reports its state. It may stop after any write and be repeated. A Seed in deletion
// is maintained like others until nothing depends on it: its Shoots run, and its extensions have to clean up.
func (r *Reconciler) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (res reconcile.Result, err error) {
	if seed.Name != r.Config.SeedConfig.Name {
		return reconcile.Result{}, nil
	}
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(seed), seed); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	s, before := &scope{seed: seed}, seed.DeepCopy()
	switch {
	case seed.DeletionTimestamp == nil:
		if err := kube.EnsureFinalizer(ctx, r.Garden, seed, corev1beta1.FinalizerName); err != nil {
			return reconcile.Result{}, err
		}
		before.ResourceVersion, before.Finalizers = seed.ResourceVersion, seed.Finalizers
	case !controllerutil.ContainsFinalizer(seed, corev1beta1.FinalizerName):
		return reconcile.Result{}, nil // All is removed. Somebody else has a finalizer.
	default:
		if s.left, s.leftErr = r.findLeft(ctx, s); s.left.nothing() && s.leftErr == nil {
			return reconcile.Result{}, r.remove(ctx, s)
		}
	}
	s.err = errors.Join(r.prepare(ctx, s), r.observe(ctx, s))
	if seed.DeletionTimestamp == nil {
		s.bucketErr = r.ensureBackupBucket(ctx, seed)
	}
	// The controller manager writes conditions, too.
	if err := errors.Join(s.err, s.bucketErr, s.leftErr, r.setStatus(ctx, s),
		kube.PatchSharedStatus(ctx, r.Garden, seed, before)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.pause(s)}, nil
}

// pause is the time until the next pass without an event.
func (r *Reconciler) pause(s *scope) time.Duration {
	if s.left.soon {
		return unreadyPeriod
	}
	for _, c := range s.seed.Status.Conditions {
		if c.Status != corev1beta1.ConditionTrue && c.Type != corev1beta1.SeedControlPlanesKnown {
			return unreadyPeriod
		}
	}
	return min(r.Config.Controllers.Seed.SyncPeriod.Duration, healthPeriod)
}

// healthPeriod is the interval of health checks of the seed's components.
const healthPeriod = time.Minute

// prepare applies what every control plane in the seed depends on.
func (r *Reconciler) prepare(ctx context.Context, s *scope) error {
	for _, d := range r.Definitions {
		if err := r.applied.Apply(ctx, r.Seed, d.DeepCopy(), fieldOwner); err != nil {
			return err
		}
	}
	for _, o := range slices.Concat(base(), r.policies(), components(s.seed, r.Image)) {
		if err := kube.Apply(ctx, r.Seed, o, fieldOwner); err != nil {
			return err
		}
	}
	return r.applyPlaceholders(ctx)
}

// policies are copies of the Policies.
func (r *Reconciler) policies() []client.Object {
	var out []client.Object
	for _, p := range r.Policies {
		out = append(out, p.DeepCopy())
	}
	return out
}

// observe reads the inputs of the conditions. What it cannot read does not keep it from the rest, except that it does
// not wait several times for an API server that does not answer.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	errs := []error{r.readInstallations(ctx, s)}
	for _, read := range []func(context.Context, *scope) error{r.findUnknown, r.readExtensions, r.readComponents} {
		if err := read(ctx, s); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) readComponents(ctx context.Context, s *scope) error {
	for _, key := range []client.ObjectKey{
		{Namespace: gateway.Namespace, Name: gateway.Name},
		{Namespace: corev1beta1.GardenNamespace, Name: resourcemanager.Name},
	} {
		d := &appsv1.Deployment{}
		if err := r.Seed.Get(ctx, key, d); err != nil {
			return fmt.Errorf("read Deployment %s: %w", key, err)
		}
		s.deployments = append(s.deployments, d)
	}
	s.gateway = &corev1.Service{}
	if err := r.Seed.Get(ctx, client.ObjectKey{Namespace: gateway.Namespace, Name: gateway.Name}, s.gateway); err != nil {
		return fmt.Errorf("read Service of the gateway: %w", err)
	}
	return nil
}

// findUnknown looks for control planes whose Shoots the garden does not know.
func (r *Reconciler) findUnknown(ctx context.Context, s *scope) error {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Seed.List(ctx, namespaces,
		client.MatchingLabels{corev1beta1.LabelRole: corev1beta1.RoleShoot}); err != nil {
		return fmt.Errorf("list control plane namespaces: %w", err)
	}
	// After the namespaces: a Shoot exists before its namespace. The cache may be older, so it cannot prove that a Shoot
	// does not exist.
	for _, garden := range []client.Reader{r.Cache, r.Garden} {
		shoots := &corev1beta1.ShootList{}
		label := client.MatchingLabels{corev1beta1.LabelPrefixSeedName + s.seed.Name: "true"}
		if err := garden.List(ctx, shoots, label, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list Shoots of the seed: %w", err)
		}
		if s.unknown = unknownControlPlanes(namespaces.Items, shoots.Items); len(s.unknown) == 0 {
			break
		}
	}
	s.controlPlanesRead = true
	return nil
}

func (r *Reconciler) readInstallations(ctx context.Context, s *scope) error {
	list := &corev1beta1.ControllerInstallationList{}
	if err := r.Garden.List(ctx, list, client.MatchingFields{"spec.seedRef.name": s.seed.Name}); err != nil {
		return fmt.Errorf("list ControllerInstallations: %w", err)
	}
	s.installations, s.installationsRead = list.Items, true
	return nil
}

func (r *Reconciler) readExtensions(ctx context.Context, s *scope) error {
	extensions := &extensionsv1alpha1.ExtensionList{}
	if err := r.Seed.List(ctx, extensions, client.InNamespace(corev1beta1.GardenNamespace)); err != nil {
		return fmt.Errorf("list Extensions of the seed: %w", err)
	}
	s.extensions = extensions.Items
	return nil
}

// setStatus computes the status from the scope.
func (r *Reconciler) setStatus(ctx context.Context, s *scope) error {
	now, status := r.Clock.Now(), &s.seed.Status
	s.alive = r.Alive()
	for _, c := range conditions(s.observed) {
		status.Conditions = corev1beta1.SetCondition(status.Conditions, c, now)
	}
	if s.seed.EmergencyStop() {
		status.Conditions = corev1beta1.SetCondition(status.Conditions, emergencyStop(), now)
	} else {
		status.Conditions = corev1beta1.RemoveCondition(status.Conditions, corev1beta1.SeedEmergencyStopShootReconciliations)
	}
	status.Gardener = ptr.To(r.Gardener)
	status.ClientCertificateExpirationTimestamp = r.CertificateNotAfter()
	status.Capacity, status.Allocatable = capacity(r.Config.Resources)
	if version, err := r.Discovery.ServerVersion(); err == nil {
		status.KubernetesVersion = ptr.To(version.GitVersion)
	}
	if s.err == nil {
		status.ObservedGeneration = s.seed.Generation
	}
	setLastOperation(status, operation(s), now)
	if status.ClusterIdentity != nil {
		return nil
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	if _, err := kube.Exists(ctx, r.Seed, ns); err != nil {
		return err
	}
	if ns.UID != "" {
		status.ClusterIdentity = ptr.To(string(ns.UID))
	}
	return nil
}

// operation is the last operation of the Seed.
func operation(s *scope) corev1beta1.LastOperation {
	if s.seed.DeletionTimestamp != nil {
		return deletion(s.left.reason, s.leftErr)
	}
	op := corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateSucceeded, Progress: 100,
		Description: "Seed is reconciled.",
	}
	if err := errors.Join(s.err, s.bucketErr, failures(s.extensions)); err != nil {
		op.State, op.Progress, op.Description = corev1beta1.LastOperationStateError, 50, err.Error()
	}
	return op
}

// setLastOperation changes the time of the operation only with the rest of it.
func setLastOperation(status *corev1beta1.SeedStatus, op corev1beta1.LastOperation, now time.Time) {
	if old := status.LastOperation; old != nil {
		op.LastUpdateTime = old.LastUpdateTime
	}
	if status.LastOperation == nil || *status.LastOperation != op {
		op.LastUpdateTime = metav1.Time{Time: now}
		status.LastOperation = &op
	}
}
