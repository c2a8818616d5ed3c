package provider

import (
	"context"
	"crypto/tls"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/webhook/certificate"
	"hortus.dev/hortus/internal/webhook/mutation"
	"hortus.dev/hortus/local/provider/operatingsystemconfig"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// Names of the webhooks; the chart has the Service, and the rights for the others.
const (
	webhookService       = "provider-local"
	webhookSecret        = "provider-local-webhooks"
	webhookConfiguration = "gardener-extension-provider-local"
	webhookPort          = 10250

	pathOperatingSystemConfig = "/webhooks/operatingsystemconfig"
)

// webhooks change what the gardenlet writes for Shoots of this provider.
type webhooks struct{ keeper certificate.Keeper }

// newWebhooks returns the webhooks of the extension, which is installed in a namespace.
func newWebhooks(namespace string) *webhooks {
	w := &webhooks{certificate.Keeper{
		Clock: clock.RealClock{}, Namespace: namespace,
		Secret: webhookSecret, Service: webhookService, Configuration: webhookConfiguration,
	}}
	w.keeper.Desired = func(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
		owner := &corev1.Namespace{}
		if err := w.keeper.Client.Get(ctx, client.ObjectKey{Name: namespace}, owner); err != nil {
			return nil, fmt.Errorf("read namespace %q of the webhooks: %w", namespace, err)
		}
		return registration(owner), nil
	}
	return w
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

// registration makes the API server call the webhooks for control planes of this provider. It is removed with its
// owner, the namespace of the extension.
func registration(owner *corev1.Namespace) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{
			Name: webhookConfiguration,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Namespace", Name: owner.Name, UID: owner.UID},
			},
		},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "operatingsystemconfig.local.provider.hortus.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: owner.Name, Name: webhookService, Path: ptr.To(pathOperatingSystemConfig), Port: ptr.To[int32](443),
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				corev1beta1.LabelRole: corev1beta1.RoleShoot, corev1beta1.LabelShootProvider: v1alpha1.Type,
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				extensionsv1alpha1.LabelMutatedByControlPlaneWebhook: "true",
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update,
				},
				Rule: admissionregistrationv1.Rule{
					APIGroups:   []string{extensionsv1alpha1.GroupName},
					APIVersions: []string{extensionsv1alpha1.SchemeGroupVersion.Version},
					Resources:   []string{"operatingsystemconfigs"},
					Scope:       ptr.To(admissionregistrationv1.NamespacedScope),
				},
			}},
			// Deletion does not depend on the webhook.
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "stays", Expression: "!has(object.metadata.deletionTimestamp)"},
			},
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
			ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](10),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
