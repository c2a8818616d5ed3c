// The program notice is an extension that shows a message to all users of a Shoot. README.md describes how it came to
// be.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/heartbeat"
)

func main() {
	namespace := flag.String("namespace", os.Getenv("POD_NAMESPACE"), "namespace of the extension")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the seed: %w", err)
	}
	mgr, err := ctrl.NewManager(config, options(namespace))
	if err != nil {
		return fmt.Errorf("set up manager: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return fmt.Errorf("set up health: %w", err)
		}
	}
	c, clk := mgr.GetClient(), clock.RealClock{}
	if err := newReconciler(c, clk).SetupWithManager(mgr, watch); err != nil {
		return fmt.Errorf("set up controller of Extensions: %w", err)
	}
	if err := (&health{seed: c, clock: clk}).setupWithManager(mgr); err != nil {
		return fmt.Errorf("set up controller of health: %w", err)
	}
	beat := &heartbeat.Beat{Client: c, Clock: clk, Namespace: namespace, Holder: extensionType}
	if err := mgr.Add(beat); err != nil {
		return fmt.Errorf("set up heartbeat: %w", err)
	}
	return mgr.Start(ctx)
}

// newReconciler keeps the contract for Extensions of this type.
func newReconciler(c client.Client, clk clock.PassiveClock) *extension.Reconciler[*extensionsv1alpha1.Extension] {
	return &extension.Reconciler[*extensionsv1alpha1.Extension]{
		Client: c, Clock: clk, Actuator: &actuator{seed: c}, Prototype: &extensionsv1alpha1.Extension{},
		Kind: extensionsv1alpha1.ExtensionKind, Type: extensionType, FinalizerSuffix: extensionType,
	}
}

// options of the manager: one replica leads, and the cache holds only what is watched.
func options(namespace string) ctrl.Options {
	return ctrl.Options{
		Scheme:                        newScheme(),
		Metrics:                       metricsserver.Options{BindAddress: ":8080"},
		HealthProbeBindAddress:        ":8081",
		LeaderElection:                true,
		LeaderElectionID:              extensionType,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&resourcesv1alpha1.ManagedResource{}: {Field: fields.OneTermEqualSelector("metadata.name", resourceName)},
			},
		},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &coordinationv1.Lease{}, &extensionsv1alpha1.Cluster{},
		}}},
	}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}
