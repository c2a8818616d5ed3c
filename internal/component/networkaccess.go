package component

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// AllShoots stands for the namespaces of all control planes in the labels of pods that reach Services there.
const AllShoots = "all-shoots"

// Cloud lists the destinations of pods that use a cloud: its API may be anywhere, also in ranges that the operator has
// blocked for others.
var Cloud = []string{
	resourcesv1alpha1.LabelNetworkPolicyToPublicNetworks, resourcesv1alpha1.LabelNetworkPolicyToPrivateNetworks,
	resourcesv1alpha1.LabelNetworkPolicyToBlockedCIDRs,
}

// What pods reach besides Services.
const (
	ReachDNS        = resourcesv1alpha1.LabelNetworkPolicyToDNS
	ReachRuntimeAPI = resourcesv1alpha1.LabelNetworkPolicyToRuntimeAPIServer
)

// ReachAPIServer is the label of pods that reach the API server of their control plane, and ReachAllAPIServers of those
// that reach the API servers of all control planes of the seed.
var (
	ReachAPIServer     = ReachService("kube-apiserver", 443)
	ReachAllAPIServers = ReachServiceOf(AllShoots, "kube-apiserver", 443)
)

// ReachWebhooks are the labels of pods that reach the webhooks which Services offer to the API server of their control
// plane: those in its namespace, and those of extensions.
var ReachWebhooks = []string{
	resourcesv1alpha1.NetworkPolicyToGroup(resourcesv1alpha1.NetworkPolicyGroupWebhooks),
	resourcesv1alpha1.NetworkPolicyToGroup(
		resourcesv1alpha1.NetworkPolicyAliasExtensions + "-" + resourcesv1alpha1.NetworkPolicyGroupWebhooks),
}

// ReachService is the label of pods that reach a TCP port of a Service in their namespace.
func ReachService(service string, port int) string {
	return resourcesv1alpha1.NetworkPolicyToService(service, "tcp", strconv.Itoa(port))
}

// ReachServiceOf is the label of pods that reach a TCP port of a Service in other namespaces.
func ReachServiceOf(namespaceOrAlias, service string, port int) string {
	return resourcesv1alpha1.NetworkPolicyToServiceOf(namespaceOrAlias, service, "tcp", strconv.Itoa(port))
}

// ReachLabels returns the labels for the destinations that pods reach.
func ReachLabels(reaches []string) map[string]string {
	labels := make(map[string]string, len(reaches))
	for _, r := range reaches {
		labels[r] = resourcesv1alpha1.NetworkPolicyAllowed
	}
	return labels
}

// ReachableFrom are the annotations of a Service of control planes that pods in namespaces with one of the roles reach,
// if they have the label with AllShoots.
func ReachableFrom(roles ...string) map[string]string {
	var selectors []metav1.LabelSelector
	for _, role := range roles {
		selectors = append(selectors, metav1.LabelSelector{MatchLabels: map[string]string{LabelRole: role}})
	}
	return reachableFrom(selectors)
}

// APIServerReachableFrom are the annotations of the Service of an API server.
func APIServerReachableFrom() map[string]string {
	return reachableFrom([]metav1.LabelSelector{
		{MatchLabels: map[string]string{LabelRole: corev1beta1.RoleIngress}},
		{MatchLabels: map[string]string{LabelRole: corev1beta1.RoleGarden}},
		{MatchLabels: map[string]string{LabelRole: corev1beta1.RoleExtension}},
		{MatchLabels: map[string]string{
			resourcesv1alpha1.LabelNetworkPolicyAccessTargetAPIServer: resourcesv1alpha1.NetworkPolicyAllowed,
		}},
	})
}

func reachableFrom(selectors []metav1.LabelSelector) map[string]string {
	return map[string]string{
		resourcesv1alpha1.AnnotationNetworkPolicyNamespaceSelectors: encode(selectors),
		resourcesv1alpha1.AnnotationNetworkPolicyNamespaceAlias:     AllShoots,
	}
}

// ReachableByEverybody is the annotation of a Service whose TCP ports are open to all clients.
func ReachableByEverybody(ports ...int32) map[string]string {
	var open []networkingv1.NetworkPolicyPort
	for _, p := range ports {
		open = append(open, networkingv1.NetworkPolicyPort{
			Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(p)),
		})
	}
	return map[string]string{resourcesv1alpha1.AnnotationNetworkPolicyFromWorldToPorts: encode(open)}
}

func encode(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("component: encode %v: %v", value, err)) // Plain values.
	}
	return string(out)
}
