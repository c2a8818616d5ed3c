// Package configuration registers the webhooks of resource-managers with API servers: at the API server of a seed those
// of the seed's resource-manager, at the API server of a Shoot those of the resource-manager in its control plane.
package configuration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

const (
	// Name of the MutatingWebhookConfiguration of a seed, and ShootName, the name of a Shoot's.
	Name      = "gardener-resource-manager-seed"
	ShootName = "gardener-resource-manager-shoot"
	// ServiceName is the name of the Service for the webhooks, in the namespace of the resource-manager.
	ServiceName = "gardener-resource-manager"
	// SecretName is the name of the Secret of a seed with the certificate of the webhooks and its CA.
	SecretName = "gardener-resource-manager-webhooks"
	// Port on which the webhooks are served, and ServicePort, the port of their Service.
	Port        = 10250
	ServicePort = 443
)

const (
	// timeoutSeconds is how long an API server waits for a webhook, which answers in milliseconds.
	timeoutSeconds = 10
	// optionalTimeoutSeconds is how long objects are delayed at most by an optional webhook that does not answer.
	optionalTimeoutSeconds = 2
)

// Webhook has what an API server must know about a webhook.
type Webhook struct {
	// Name in the configuration, in the form of a domain name.
	Name string
	// Path of the URL.
	Path string
	// Rules select requests, Namespaces select namespaces, Objects select objects.
	Rules               []admissionregistrationv1.RuleWithOperations
	Namespaces, Objects metav1.LabelSelector
	// Conditions are CEL expressions by name, all of which hold for the objects that it handles. The API server evaluates
	// them, so that objects that need no change do not depend on the webhook.
	Conditions []admissionregistrationv1.MatchCondition
	// Optional webhooks improve objects that work without their change, so requests succeed when they do not answer.
	Optional bool
}

// failure is what happens to a request if the webhook has not answered after the timeout, in seconds.
func (w *Webhook) failure() (policy admissionregistrationv1.FailurePolicyType, timeout int32) {
	if w.Optional {
		return admissionregistrationv1.Ignore, optionalTimeoutSeconds
	}
	return admissionregistrationv1.Fail, timeoutSeconds
}

// ForSeed registers the webhooks with the API server of a seed, through the [Service] in the namespace. The
// resource-manager itself adds the CA of their certificate.
func ForSeed(namespace string, labels map[string]string) *admissionregistrationv1.MutatingWebhookConfiguration {
	return configuration(Name, labels, SeedWebhooks(), func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: namespace, Name: ServiceName, Path: ptr.To(path), Port: ptr.To(int32(ServicePort)),
		}}
	})
}

// ForShoot registers the webhooks with the API server of a Shoot, through the [Service] in the namespace of the control
// plane. The URL has no namespace, since the API server resolves it in its own.
func ForShoot(caBundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	return configuration(ShootName, nil, ShootWebhooks(), func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://" + ServiceName + path), CABundle: caBundle}
	})
}

func configuration(
	name string, labels map[string]string, webhooks []Webhook,
	client func(path string) admissionregistrationv1.WebhookClientConfig,
) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, w := range webhooks {
		policy, timeout := w.failure()
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    w.Name,
			ClientConfig:            client(w.Path),
			Rules:                   w.Rules,
			FailurePolicy:           ptr.To(policy),
			MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
			NamespaceSelector:       &w.Namespaces,
			ObjectSelector:          &w.Objects,
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To(timeout),
			AdmissionReviewVersions: []string{"v1"},
			ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
			MatchConditions:         w.Conditions,
		})
	}
	return c
}

// DNSNames are the host names by which the API server of a Shoot reaches the resource-manager.
func DNSNames(namespace string) []string {
	return []string{ServiceName, ServiceName + "." + namespace, ServiceName + "." + namespace + ".svc"}
}

// Service is for the webhooks of the selected pods.
func Service(namespace string, labels, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ServiceName, Labels: labels},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector,
			Ports: []corev1.ServicePort{{
				Name: "webhooks", Protocol: corev1.ProtocolTCP, Port: ServicePort, TargetPort: intstr.FromInt32(Port),
			}},
		},
	}
}

// OpenService is a [Service] with ingress from any address: no selector matches the API server of a seed.
func OpenService(namespace string, labels, selector map[string]string) *corev1.Service {
	s := Service(namespace, labels, selector)
	s.Annotations = map[string]string{
		resourcesv1alpha1.AnnotationNetworkPolicyFromWorldToPorts: `[{"protocol":"TCP","port":10250}]`,
	}
	return s
}
