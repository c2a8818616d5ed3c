package test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/gardenlet/controllerinstallation"
	"hortus.dev/hortus/internal/gardenlet/seed"
	"hortus.dev/hortus/internal/gardenlet/shoot/care"
)

// bound is the longest time from the end of an outage to the next attempt.
const bound = 30 * time.Second

// outage is a garden that does not answer, and counts who tries to reach it.
type outage struct {
	mu       sync.Mutex
	attempts int
	last     time.Time
	longest  time.Duration // Between two attempts.
}

// clientOf is a client of the garden during the outage.
func (o *outage) clientOf(scheme *runtime.Scheme) client.Client {
	refused := func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		now := time.Now()
		if o.attempts > 0 {
			o.longest = max(o.longest, now.Sub(o.last))
		}
		o.attempts, o.last = o.attempts+1, now
		return &url.Error{Op: "Get", URL: "https://garden", Err: io.EOF}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused()
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refused()
		},
	}).Build()
}

// TestPausesAfterALongOutage: after 20 minutes without the garden, the controllers for the Seed, for the conditions of
// Shoots and for extensions try again within 30 s.
func TestPausesAfterALongOutage(t *testing.T) {
	const name = "a"
	lost := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "lost"}}
	lost.Status.SeedName, lost.Status.TechnicalID = ptr.To(name), "shoot--dev--lost"
	installation := &corev1beta1.ControllerInstallation{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	installation.Spec.SeedRef = &corev1.ObjectReference{Name: name}
	own := &config.GardenletConfiguration{SeedConfig: &config.SeedConfig{}}
	own.SeedConfig.Name = name
	for controller, tc := range map[string]struct {
		object client.Object
		add    func(mgr ctrl.Manager, in cluster.Cluster, garden client.Client) error
	}{
		"seed": {&corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}},
			func(mgr ctrl.Manager, in cluster.Cluster, garden client.Client) error {
				r := &seed.Reconciler{Garden: garden, Config: own, Clock: clock.RealClock{}}
				return r.AddToManager(mgr, in, make(chan event.GenericEvent))
			}},
		"care": {lost, func(mgr ctrl.Manager, _ cluster.Cluster, garden client.Client) error {
			r := &care.Reconciler{Garden: garden, SeedName: name, Period: time.Minute, Clock: clock.RealClock{}}
			return r.AddToManager(mgr, 1, make(chan event.GenericEvent))
		}},
		"controllerinstallation": {installation,
			func(mgr ctrl.Manager, in cluster.Cluster, garden client.Client) error {
				r := &controllerinstallation.Reconciler{Garden: garden, SeedName: name, Clock: clock.RealClock{}}
				return r.AddToManager(mgr, in, 1)
			}},
	} {
		t.Run(controller, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gardenScheme, err := gardenlet.GardenScheme()
				if err != nil {
					t.Fatal(err)
				}
				seedScheme, err := gardenlet.SeedScheme()
				if err != nil {
					t.Fatal(err)
				}
				informers := &informertest.FakeInformers{Scheme: gardenScheme}
				mgr, err := ctrl.NewManager(&rest.Config{Host: "https://garden"}, ctrl.Options{
					Scheme: gardenScheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
					Controller: controllerconfig.Controller{SkipNameValidation: ptr.To(true)},
					NewCache:   func(*rest.Config, cache.Options) (cache.Cache, error) { return informers, nil },
					NewClient: func(*rest.Config, client.Options) (client.Client, error) { // The cache continues to answer.
						return fake.NewClientBuilder().WithScheme(gardenScheme).WithObjects(tc.object).Build(), nil
					},
					MapperProvider: mapperOf(gardenScheme),
				})
				if err != nil {
					t.Fatal(err)
				}
				in, err := cluster.New(&rest.Config{Host: "https://seed"}, func(o *cluster.Options) {
					o.Scheme, o.MapperProvider = seedScheme, mapperOf(seedScheme)
					o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) {
						return informersOfSeed{&informertest.FakeInformers{Scheme: seedScheme}}, nil
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				garden := &outage{}
				if err := tc.add(mgr, in, garden.clientOf(gardenScheme)); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- mgr.Start(ctx) }()
				synctest.Wait()
				informer, err := informers.FakeInformerFor(ctx, tc.object)
				if err != nil {
					t.Fatal(err)
				}
				informer.Add(tc.object.(metav1.Object))
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				garden.mu.Lock()
				// Beyond the bound, the first attempt after the outage, at any time, would be too late.
				if fewest := int(20 * time.Minute / bound); garden.attempts < fewest || garden.longest > bound {
					t.Errorf("%d attempts in 20 minutes, the longest pause is %s; want at least %d, at most %s apart",
						garden.attempts, garden.longest, fewest, bound)
				}
				if since := time.Since(garden.last); since > bound {
					t.Errorf("the last attempt was %s ago", since)
				}
				garden.mu.Unlock()
				cancel()
				if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}

// informersOfSeed have no events, and no kinds of metadata alone.
type informersOfSeed struct{ *informertest.FakeInformers }

func (i informersOfSeed) GetInformer(
	ctx context.Context, o client.Object, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	if m, metadata := o.(*metav1.PartialObjectMetadata); metadata {
		return i.GetInformerForKind(ctx, m.GroupVersionKind(), options...)
	}
	return i.FakeInformers.GetInformer(ctx, o, options...)
}

// mapperOf knows the kinds of a scheme, without a server.
func mapperOf(scheme *runtime.Scheme) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
		return testrestmapper.TestOnlyStaticRESTMapper(scheme), nil
	}
}
