package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/heartbeat"
	"hortus.dev/hortus/extension/managedresource"
	"hortus.dev/hortus/internal/kube"
)

const (
	extensionType = "tagged"
	// serviceName is the Service of the webhooks in the namespace of the extension.
	serviceName = "tagger"
	// webhookPort is that of the pod.
	webhookPort = 10250
	// resourceName is the ManagedResource in the namespace of a control plane, seedResourceName that of the seed.
	resourceName     = "extension-tagger-shoot-webhooks"
	seedResourceName = "extension-tagger-seed"
	// recheck is the pause between two looks at the ManagedResource.
	recheck = time.Second
)

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), os.Getenv("POD_NAMESPACE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the seed: %w", err)
	}
	scheme := newScheme()
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connect to the seed: %w", err)
	}
	pair, bundle, err := certificate(ctx, direct, namespace)
	if err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Port: webhookPort, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	}}})
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "127.0.0.1:8080"}, HealthProbeBindAddress: ":8081",
		WebhookServer: server,
	})
	if err != nil {
		return fmt.Errorf("set up manager: %w", err)
	}
	server = mgr.GetWebhookServer() // From now on the manager runs it.
	for path, handler := range map[string]http.Handler{
		pathConfigs: &webhook.Admission{Handler: hook(tagNode)}, pathServer: &webhook.Admission{Handler: hook(tagServer)},
		pathPods: &webhook.Admission{Handler: hook(tagPod)},
	} {
		server.Register(path, handler)
	}
	// Ready means that the webhooks answer: from then on Shoots that use the extension are reconciled.
	if err := mgr.AddReadyzCheck("webhooks", healthz.Checker(server.StartedChecker())); err != nil {
		return fmt.Errorf("set up health: %w", err)
	}
	if err := register(ctx, direct, namespace, bundle); err != nil {
		return err
	}
	reconciler := newReconciler(mgr.GetClient(), &actuator{seed: direct, hooks: shootWebhooks(namespace, bundle)})
	if err := reconciler.SetupWithManager(mgr, nil); err != nil {
		return fmt.Errorf("set up controller of Extensions: %w", err)
	}
	if err := mgr.Add(&heartbeat.Beat{Client: direct, Clock: clock.RealClock{}, Namespace: namespace,
		Holder: extensionType}); err != nil {
		return fmt.Errorf("set up heartbeat: %w", err)
	}
	return mgr.Start(ctx)
}

func newReconciler(c client.Client, a *actuator) *extension.Reconciler[*extensionsv1alpha1.Extension] {
	return &extension.Reconciler[*extensionsv1alpha1.Extension]{
		Client: c, Clock: clock.RealClock{}, Actuator: a, Prototype: &extensionsv1alpha1.Extension{},
		Kind: extensionsv1alpha1.ExtensionKind, Type: extensionType, FinalizerSuffix: extensionType,
		Classes: []extensionsv1alpha1.Class{extensionsv1alpha1.ClassShoot, extensionsv1alpha1.ClassSeed},
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

// register lets the API server of the seed call the webhooks.
func register(ctx context.Context, c client.Client, namespace string, bundle []byte) error {
	owner := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, owner); err != nil {
		return fmt.Errorf("read namespace %q: %w", namespace, err)
	}
	return kube.Apply(ctx, c, seedWebhooks(owner, bundle), serviceName)
}

// actuator registers the webhook for pods in the Shoot, or shows what the Seed configures in a ConfigMap.
type actuator struct {
	seed  client.Client
	hooks client.Object
}

// objects are what the resource-manager applies for an Extension.
func (a *actuator) objects(e *extensionsv1alpha1.Extension) managedresource.Set {
	if e.Spec.GetClass() != extensionsv1alpha1.ClassSeed {
		return managedresource.Set{Namespace: e.Namespace, Name: resourceName, Objects: []client.Object{a.hooks}}
	}
	shown := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: extensionType}}
	if e.Spec.ProviderConfig != nil {
		shown.Data = map[string]string{"providerConfig": string(e.Spec.ProviderConfig.Raw)}
	}
	return managedresource.Set{
		Namespace: e.Namespace, Name: seedResourceName, Seed: true, Objects: []client.Object{shown},
	}
}

// Reconcile hands the objects to the resource-manager, and waits until they are there.
func (a *actuator) Reconcile(
	ctx context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	set := a.objects(e)
	if err := managedresource.Apply(ctx, a.seed, a.seed.Scheme(), set); err != nil {
		return extension.Result{}, err
	}
	applied := &resourcesv1alpha1.ManagedResource{}
	if err := a.seed.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: set.Name}, applied); err != nil {
		return extension.Result{}, fmt.Errorf("read managed resource %q: %w", set.Name, err)
	}
	if problem := managedresource.Problem(applied); problem != "" {
		return extension.Waiting(problem, recheck), nil
	}
	return extension.Done(), nil
}

// Restore is Reconcile, since there is no state.
func (a *actuator) Restore(
	ctx context.Context, e *extensionsv1alpha1.Extension, c *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, e, c)
}

// Migrate leaves the registration in the Shoot.
func (a *actuator) Migrate(
	ctx context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, e, true)
}

// Delete removes the objects.
func (a *actuator) Delete(
	ctx context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, e, false)
}

// ForceDelete does not wait until they are gone.
func (a *actuator) ForceDelete(
	ctx context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, e, true)
}

func (a *actuator) remove(ctx context.Context, e *extensionsv1alpha1.Extension, keep bool) (extension.Result, error) {
	gone, err := managedresource.Delete(ctx, a.seed, e.Namespace, a.objects(e).Name, keep)
	if err != nil || gone {
		return extension.Done(), err
	}
	return extension.Waiting("Objects are being removed.", recheck), nil
}
