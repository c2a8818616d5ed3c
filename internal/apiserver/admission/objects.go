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

// Objects is what decisions are based on.
type Objects struct {
	// Cached reads the kinds that every request needs: profiles, Seeds, Projects, bindings, classes and registrations.
	Cached client.Reader
	// Live reads own kinds from the server, through its watch cache.
	Live client.Reader
	// Garden reads kinds of Kubernetes in the garden cluster.
	Garden client.Reader
	// DryRun writes to the garden cluster and to the server itself without an effect, for the answer only.
	DryRun, DryRunOwn client.Client
	Authorizer        authorizer.Authorizer
	Clock             clock.PassiveClock

	cache    cache.Cache
	synced   atomic.Bool
	profiles compiled
}

// cachedKinds are read on nearly every write, and few, except Shoots, of which little is kept.
func cachedKinds() []client.Object {
	return []client.Object{
		&corev1beta1.CloudProfile{}, &corev1beta1.NamespacedCloudProfile{}, &corev1beta1.Seed{}, &corev1beta1.Project{},
		&corev1beta1.SecretBinding{}, &securityv1alpha1.CredentialsBinding{}, &corev1beta1.ExposureClass{},
		&corev1beta1.Quota{}, &corev1beta1.ControllerRegistration{}, &corev1beta1.Shoot{},
		&seedmanagementv1alpha1.ManagedSeed{},
	}
}

// Sources are where objects come from.
type Sources struct {
	// Loopback asks the server itself, which knows the kinds of AddToScheme, as any client would.
	Loopback    *rest.Config
	AddToScheme func(*runtime.Scheme) error
	// Stored follows the objects of a type that the server stores.
	Stored func(runtime.Object) toolscache.ListerWatcher
	// Garden is the garden cluster.
	Garden *rest.Config
}

// NewObjects connects to the server itself and to the garden cluster. Nothing is read before Start.
func NewObjects(sources Sources, authorizer authorizer.Authorizer, clock clock.PassiveClock) (*Objects, error) {
	scheme := runtime.NewScheme()
	if err := sources.AddToScheme(scheme); err != nil {
		return nil, err
	}
	// The server cannot be asked for its kinds before it serves, so they are told.
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
		// Only kinds that the server stores are cached, whole and in all namespaces.
		NewInformer: func(_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration,
			indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(sources.Stored(object), object, resync, indexers)
		},
		// Decisions do not change what they are based on.
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

// Ready says whether the caches are filled.
func (o *Objects) Ready() bool { return o.synced.Load() }

// WantsObjects is a plugin that reads objects.
type WantsObjects interface {
	admission.InitializationValidator
	SetObjects(*Objects)
}

// NewInitializer hands objects to the plugins that want them.
func NewInitializer(objects *Objects) admission.PluginInitializer { return initializer{objects} }

type initializer struct{ objects *Objects }

func (i initializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(WantsObjects); ok {
		wants.SetObjects(i.objects)
	}
}
