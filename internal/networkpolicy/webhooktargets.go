package networkpolicy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// AnnotationExtensions on the namespace of a control plane has the names of the ControllerRegistrations of the
// extensions that the Shoot uses, separated by commas.
const AnnotationExtensions = "hortus.dev/extensions"

// The ConfigMap in the namespace of a control plane with the result of [WebhookTargets], and its key.
const (
	WebhookTargetsName = "webhook-targets"
	WebhookTargetsKey  = "targets"
)

// WebhookTargets returns the webhooks in the seed that the API server of a control plane may call, as host:port in all
// usual spellings, sorted. They are ports of Services that allow it by annotation: those in the namespace of the
// control plane itself, and those of the extensions that the Shoot uses, if their annotations select the namespace.
// namespaces and services are those of the whole cluster. Services with invalid annotations have no targets.
func WebhookTargets(own *corev1.Namespace, namespaces []*corev1.Namespace, services []*corev1.Service) []string {
	if !Managed(own) || own.Labels[corev1beta1.LabelRole] != corev1beta1.RoleShoot {
		return nil
	}
	offering := map[string]bool{own.Name: true}
	used := strings.Split(own.Annotations[AnnotationExtensions], ",")
	for _, ns := range namespaces {
		if Managed(ns) && ns.Labels[corev1beta1.LabelRole] == corev1beta1.RoleExtension {
			registration := ns.Labels[corev1beta1.LabelControllerRegistrationName]
			offering[ns.Name] = registration != "" && slices.Contains(used, registration)
		}
	}
	var out []string
	for _, s := range services {
		if !offering[s.Namespace] || !offersWebhooks(s, own) {
			continue
		}
		for _, port := range webhookPorts(s) {
			for _, host := range hosts(s, own.Name) {
				out = append(out, fmt.Sprintf("%s:%d", host, port))
			}
		}
	}
	return sorted(out, strings.Compare)
}

// offersWebhooks reports whether a Service offers webhooks to the control plane in own. The Service is there, or in the
// namespace of an extension that the Shoot uses. Its ports are checked by webhookPorts.
func offersWebhooks(s *corev1.Service, own *corev1.Namespace) bool {
	if s.DeletionTimestamp != nil || s.Spec.Type == corev1.ServiceTypeExternalName || len(s.Spec.Selector) == 0 {
		return false // Its name leads elsewhere, or somebody else decides where.
	}
	if s.Namespace == own.Name {
		return true
	}
	alias := s.Annotations[resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias]
	return (alias == "" || alias == resourcesv1alpha1.NetworkPolicyAliasExtensions) &&
		len(ClientNamespaces(s, []*corev1.Namespace{own})) > 0
}

// webhookPorts returns the ports of the Service behind which are the pods' ports that its annotation names.
func webhookPorts(s *corev1.Service) []int32 {
	open, err := annotatedPorts(s, resourcesv1alpha1.AnnotationNetworkPolicyFromPrefix+
		resourcesv1alpha1.NetworkPolicyGroupWebhooks+resourcesv1alpha1.AnnotationNetworkPolicyFromSuffix)
	if err != nil {
		return nil // OfService reports it.
	}
	var out []int32
	for _, p := range s.Spec.Ports {
		target := p.TargetPort
		if target == (intstr.IntOrString{}) {
			target = intstr.FromInt32(p.Port)
		}
		if (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) && slices.ContainsFunc(open, opens(target)) {
			out = append(out, p.Port)
		}
	}
	return out
}

// opens returns whether an annotated port includes a TCP port of a pod.
func opens(target intstr.IntOrString) func(networkingv1.NetworkPolicyPort) bool {
	return func(p networkingv1.NetworkPolicyPort) bool {
		if *p.Protocol != corev1.ProtocolTCP {
			return false
		}
		if p.EndPort != nil && p.Port.Type == intstr.Int && target.Type == intstr.Int {
			return p.Port.IntVal <= target.IntVal && target.IntVal <= *p.EndPort
		}
		return *p.Port == target
	}
}

// hosts are the names of a Service for processes of a namespace.
func hosts(s *corev1.Service, from string) []string {
	long := s.Name + "." + s.Namespace
	out := []string{long, long + ".svc", long + ".svc.cluster.local"}
	if s.Namespace == from {
		out = append(out, s.Name)
	}
	return out
}

// WebhookTargetsOf returns the ConfigMap for the tunnel server of a control plane.
func WebhookTargetsOf(namespace string, targets []string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: WebhookTargetsName, Labels: map[string]string{labelOwn: ownedBy},
		},
		Data: map[string]string{WebhookTargetsKey: strings.Join(targets, "\n")},
	}
}
