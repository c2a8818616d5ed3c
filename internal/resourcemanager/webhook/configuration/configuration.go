// Package configuration tells the API server of a seed of the webhooks of its resource-manager.
package configuration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

const (
	// Name of the MutatingWebhookConfiguration.
	Name = "gardener-resource-manager-seed"
	// ServiceName is that of the Service that offers the webhooks, in the namespace of the resource-manager.
	ServiceName = "gardener-resource-manager"
	// Port on which the webhooks are served, and ServicePort under which the Service offers them.
	Port        = 10250
	ServicePort = 443
)

// Webhook is what an API server has to know of one.
type Webhook struct {
	// Name in the configuration, a domain.
	Name string
	// Path below the server's address.
	Path string
	// Rule says which requests it handles, Namespaces in which namespaces.
	Rule       admissionregistrationv1.RuleWithOperations
	Namespaces metav1.LabelSelector
	// Conditions are CEL expressions that all hold for what it handles, by name. The API server checks them, so that
	// what needs no change does not depend on the webhook.
	Conditions []admissionregistrationv1.MatchCondition
}

const (
	// PathTokenMount is where pods get a token of their ServiceAccount.
	PathTokenMount = "/webhooks/mount-projected-service-account-token"
	// LabelSkipTokenMount on a pod, with any value, leaves it without one.
	LabelSkipTokenMount = "projected-token-mount.resources.gardener.cloud/skip"
	// TokenVolumePrefix begins the names of volumes with a token, those that Kubernetes adds too.
	TokenVolumePrefix = "kube-api-access"
)

// Webhooks of seeds.
var Webhooks = []Webhook{{
	Name: "projected-token-mount.resources.gardener.cloud",
	Path: PathTokenMount,
	Rule: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
			Scope: ptr.To(admissionregistrationv1.NamespacedScope),
		},
	},
	// Control planes hold pods of extensions, too.
	Namespaces: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1beta1.LabelRole, Operator: metav1.LabelSelectorOpIn,
		Values: []string{corev1beta1.RoleExtension, corev1beta1.RoleShoot},
	}}},
	Conditions: []admissionregistrationv1.MatchCondition{
		{Name: "has-service-account",
			Expression: `has(object.spec.serviceAccountName) && !(object.spec.serviceAccountName in ["", "default"])`},
		{Name: "leaves-it-to-the-service-account", Expression: `!has(object.spec.automountServiceAccountToken)`},
		{Name: "has-no-token",
			Expression: `!has(object.spec.volumes) || !object.spec.volumes.exists(v, v.name.startsWith("` + TokenVolumePrefix + `"))`},
		{Name: "is-not-skipped",
			Expression: `!has(object.metadata.labels) || !("` + LabelSkipTokenMount + `" in object.metadata.labels)`},
	},
}}

// Configuration tells an API server of the webhooks, which [Service] offers in the namespace. The CA of their
// certificate is added by the resource-manager itself.
func Configuration(namespace string, labels map[string]string) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: labels},
	}
	for _, w := range Webhooks {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: w.Name,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: namespace, Name: ServiceName, Path: ptr.To(w.Path), Port: ptr.To(int32(ServicePort)),
			}},
			Rules:                   []admissionregistrationv1.RuleWithOperations{w.Rule},
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
			NamespaceSelector:       w.Namespaces.DeepCopy(),
			ObjectSelector:          &metav1.LabelSelector{},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To(int32(10)),
			AdmissionReviewVersions: []string{"v1"},
			ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
			MatchConditions:         w.Conditions,
		})
	}
	return c
}

// Service offers the webhooks of the selected pods.
func Service(namespace string, labels, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ServiceName, Labels: labels, Annotations: map[string]string{
			// An API server calls from an address that no selector describes.
			resourcesv1alpha1.AnnotationNetworkPolicyFromWorldToPorts: `[{"protocol":"TCP","port":10250}]`,
		}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector,
			Ports: []corev1.ServicePort{{
				Name: "webhooks", Protocol: corev1.ProtocolTCP, Port: ServicePort, TargetPort: intstr.FromInt32(Port),
			}},
		},
	}
}
