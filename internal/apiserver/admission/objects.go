package admission

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Objects provides the objects that decisions depend on.
type Objects struct {
	// Cached reads the kinds that every request needs: profiles, Seeds, Projects, bindings, classes and registrations.
	Cached client.Reader
	// Live reads our own kinds from the API server, through its watch cache.
	Live client.Reader
	// Garden reads Kubernetes' own kinds in the garden cluster.
	Garden client.Reader
	// DryRun and DryRunOwn send dry-run requests, to the garden cluster and to this API server: only their responses
	// matter.
	DryRun, DryRunOwn client.Client
	Authorizer        authorizer.Authorizer
	Clock             clock.PassiveClock

	cache    cache.Cache
	synced   atomic.Bool
	profiles compiled
}

// cachedKinds returns the kinds that nearly every write reads. Their objects are few, except Shoots, of which only some
// fields are kept.
func cachedKinds() []client.Object {
	return []client.Object{
		&corev1beta1.CloudProfile{}, &corev1beta1.NamespacedCloudProfile{}, &corev1beta1.Seed{}, &corev1beta1.Project{},
		&corev1beta1.SecretBinding{}, &securityv1alpha1.CredentialsBinding{}, &corev1beta1.ExposureClass{},
		&corev1beta1.Quota{}, &corev1beta1.ControllerRegistration{}, &corev1beta1.Shoot{},
		&seedmanagementv1alpha1.ManagedSeed{},
	}
}

// Sources are the origins of objects.
type Sources struct {
	// Loopback is the client configuration for this API server itself, for the kinds of AddToScheme.
	Loopback    *rest.Config
	AddToScheme func(*runtime.Scheme) error
	// Stored lists and watches the stored objects of a type.
	Stored func(runtime.Object) toolscache.ListerWatcher
	// Garden is the garden cluster.
	Garden *rest.Config
}

// NewObjects connects to this API server and to the garden cluster. Nothing is read before Start.
func NewObjects(sources Sources, authorizer authorizer.Authorizer, clock clock.PassiveClock) (*Objects, error) {
	scheme := runtime.NewScheme()
	if err := sources.AddToScheme(scheme); err != nil {
		return nil, err
	}
	// The API server cannot be queried for its kinds before it serves, so they are listed here.
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		switch gvk.Kind {
		case "CloudProfile", "Seed", "Project", "ExposureClass", "ControllerRegistration", "ControllerDeployment",
			"ControllerInstallation", "BackupBucket":
			mapper.Add(gvk, meta.RESTScopeRoot)
		default:
			mapper.Add(gvk, meta.RESTScopeNamespace)
		}
	}
	own, err := cache.New(sources.Loopback, cache.Options{
		Scheme: scheme, Mapper: mapper,
		// Only kinds that this API server stores are cached, completely and for all namespaces.
		NewInformer: func(_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration,
			indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(sources.Stored(object), object, resync, indexers)
		},
		// Decisions do not change the objects they read.
		DefaultUnsafeDisableDeepCopy: new(true),
		DefaultTransform:             cache.TransformStripManagedFields(),
		ByObject:                     map[client.Object]cache.ByObject{&corev1beta1.Shoot{}: {Transform: keepOfShoot}},
	})
	if err != nil {
		return nil, fmt.Errorf("make admission caches: %w", err)
	}
	live, err := client.New(sources.Loopback, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make loopback client: %w", err)
	}
	kube, err := client.New(sources.Garden, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("make client for the garden: %w", err)
	}
	return &Objects{
		Cached: own, Live: live, Garden: kube, DryRun: client.NewDryRunClient(kube), DryRunOwn: client.NewDryRunClient(live),
		Authorizer: authorizer, Clock: clock, cache: own,
	}, nil
}

// Start fills the caches and keeps them up to date until the context ends. It returns when they are filled.
func (o *Objects) Start(ctx context.Context) error {
	for _, index := range indexes() {
		if err := o.cache.IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return fmt.Errorf("make index %s of %T: %w", index.name, index.object, err)
		}
	}
	for _, object := range cachedKinds() {
		if _, err := o.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("make cache of %T: %w", object, err)
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- o.cache.Start(ctx) }()
	if !o.cache.WaitForCacheSync(ctx) {
		select {
		case err := <-failed:
			return fmt.Errorf("fill admission caches: %w", err)
		default:
			return fmt.Errorf("fill admission caches: %w", ctx.Err())
		}
	}
	o.synced.Store(true)
	return nil
}

// Ready reports whether the caches are filled.
func (o *Objects) Ready() bool { return o.synced.Load() }

// WantsObjects is a plugin that reads objects.
type WantsObjects interface {
	admission.InitializationValidator
	SetObjects(*Objects)
}

// NewInitializer passes objects to the plugins that implement WantsObjects.
func NewInitializer(objects *Objects) admission.PluginInitializer { return initializer{objects} }

type initializer struct{ objects *Objects }

func (i initializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(WantsObjects); ok {
		wants.SetObjects(i.objects)
	}
}
