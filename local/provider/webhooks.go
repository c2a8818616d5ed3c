package provider

import (
	"context"
	"crypto/tls"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/webhook/certificate"
	"hortus.dev/hortus/internal/webhook/mutation"
	"hortus.dev/hortus/local/provider/machine"
	"hortus.dev/hortus/local/provider/operatingsystemconfig"
)

// Names of the webhooks; the chart has the Service and the configuration, and the rights for the Secret.
const (
	webhookService       = "provider-local"
	webhookSecret        = "provider-local-webhooks"
	webhookConfiguration = "gardener-extension-provider-local"
	webhookPort          = 10250

	pathOperatingSystemConfig    = "/webhooks/operatingsystemconfig"
	pathMachineControllerManager = "/webhooks/machine-controller-manager"
)

// webhooks change what the gardenlet writes for Shoots of this provider.
type webhooks struct {
	keeper certificate.Keeper
	image  string // Of this program.
}

// newWebhooks returns the webhooks of the extension, which is installed in a namespace.
func newWebhooks(namespace, image string) *webhooks {
	return &webhooks{image: image, keeper: certificate.Keeper{
		Clock: clock.RealClock{}, Namespace: namespace,
		Secret: webhookSecret, Service: webhookService, Configuration: webhookConfiguration,
	}}
}

// configure makes a manager serve the webhooks, and cache no other configuration than theirs.
func (w *webhooks) configure(opts *ctrl.Options) {
	opts.WebhookServer = webhook.NewServer(webhook.Options{Port: webhookPort, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.MinVersion, c.GetCertificate = tls.VersionTLS13, w.keeper.GetCertificate },
	}})
	opts.Cache.ByObject = map[client.Object]cache.ByObject{&admissionregistrationv1.MutatingWebhookConfiguration{}: {
		Field: fields.OneTermEqualSelector("metadata.name", webhookConfiguration),
	}}
}

// setup registers the webhooks with the manager. It is ready once the API server calls them.
func (w *webhooks) setup(mgr ctrl.Manager) error {
	server := mgr.GetWebhookServer()
	server.Register(pathOperatingSystemConfig, mutation.Webhook(mgr.GetScheme(),
		func() *extensionsv1alpha1.OperatingSystemConfig { return &extensionsv1alpha1.OperatingSystemConfig{} },
		inContainer(mgr.GetClient())))
	server.Register(pathMachineControllerManager, mutation.Webhook(mgr.GetScheme(),
		func() *appsv1.Deployment { return &appsv1.Deployment{} }, withMachineController(w.image)))
	if err := w.keeper.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhooks", server.StartedChecker()); err != nil {
		return fmt.Errorf("add readiness of the webhooks: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhooks-announced", w.keeper.Announced); err != nil {
		return fmt.Errorf("add readiness of the webhooks: %w", err)
	}
	return nil
}

// withMachineController adds the controller of machines to the machine-controller-manager of a control plane.
func withMachineController(image string) mutation.Change[*appsv1.Deployment] {
	return func(_ context.Context, _ string, d *appsv1.Deployment) (bool, error) {
		machine.AddSidecar(&d.Spec.Template.Spec, image)
		return true, nil
	}
}

// inContainer fits contents for machines to those of this provider, which are containers.
func inContainer(reader client.Reader) mutation.Change[*extensionsv1alpha1.OperatingSystemConfig] {
	return func(ctx context.Context, namespace string, o *extensionsv1alpha1.OperatingSystemConfig) (bool, error) {
		cluster, err := extension.GetCluster(ctx, reader, namespace)
		if apierrors.IsNotFound(err) {
			return false, nil // The last that is deleted of a Shoot; the object is being deleted.
		} else if err != nil {
			return false, err
		}
		pool := &corev1beta1.Worker{} // A pool that is being deleted is no longer in the Shoot.
		for i := range cluster.Shoot.Spec.Provider.Workers {
			if w := &cluster.Shoot.Spec.Provider.Workers[i]; w.Name == o.Labels[corev1beta1.LabelWorkerPool] {
				pool = w
			}
		}
		return true, operatingsystemconfig.InContainer(&o.Spec, corev1beta1.EffectiveKubelet(cluster.Shoot, pool))
	}
}
