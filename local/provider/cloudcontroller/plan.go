package cloudcontroller

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"hortus.dev/hortus/local/cloud"
)

const (
	// labelExclude keeps a node out of load balancers.
	labelExclude = "node.kubernetes.io/exclude-from-external-load-balancers"
	// providerPrefix begins every provider ID of the local cloud: local:///<region>/<instance id>.
	providerPrefix = "local://"
)

// wantsLoadBalancer reports whether the Service should have a load balancer of ours.
func wantsLoadBalancer(svc *corev1.Service) bool {
	return svc.DeletionTimestamp.IsZero() && svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		svc.Spec.LoadBalancerClass == nil
}

// loadBalancerName is unique in the account, also when the Service is deleted and made again under the same name.
func loadBalancerName(svc *corev1.Service) string { return "k8s-" + string(svc.UID) }

// instanceID returns the instance a provider ID names, or "".
func instanceID(providerID string) string {
	if !strings.HasPrefix(providerID, providerPrefix) {
		return ""
	}
	return providerID[strings.LastIndex(providerID, "/")+1:]
}

// ready reports whether a node may receive traffic.
func ready(node *corev1.Node) bool {
	if !node.DeletionTimestamp.IsZero() || instanceID(node.Spec.ProviderID) == "" {
		return false
	}
	if _, excluded := node.Labels[labelExclude]; excluded {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// listeners computes what the load balancer of a Service must forward: every TCP port to its node port on every node
// that may receive traffic, sorted by port and instance. With external traffic policy Local these are the nodes with an
// endpoint, since the others drop the connection. Ports of other protocols are returned by name in skipped.
func listeners(
	svc *corev1.Service, nodes []corev1.Node, endpoints []discoveryv1.EndpointSlice,
) (out []cloud.Listener, skipped []string) {
	var local map[string]bool
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		local = nodesWithEndpoint(endpoints)
	}
	var ids []string
	for i := range nodes {
		if ready(&nodes[i]) && (local == nil || local[nodes[i].Name]) {
			ids = append(ids, instanceID(nodes[i].Spec.ProviderID))
		}
	}
	slices.Sort(ids)
	for _, port := range svc.Spec.Ports {
		if port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
			skipped = append(skipped, fmt.Sprintf("%d/%s", port.Port, port.Protocol))
			continue
		}
		if port.NodePort == 0 {
			continue // The API server will allocate it; the update triggers the next reconciliation.
		}
		targets := make([]cloud.Target, 0, len(ids))
		for _, id := range ids {
			targets = append(targets, cloud.Target{InstanceID: id, Port: int(port.NodePort)})
		}
		out = append(out, cloud.Listener{Port: int(port.Port), Targets: targets})
	}
	slices.SortFunc(out, func(a, b cloud.Listener) int { return a.Port - b.Port })
	return out, skipped
}

func nodesWithEndpoint(endpoints []discoveryv1.EndpointSlice) map[string]bool {
	out := map[string]bool{}
	for _, slice := range endpoints {
		for _, ep := range slice.Endpoints {
			// Nil means ready, see the API of EndpointSlices.
			if ep.NodeName != nil && (ep.Conditions.Ready == nil || *ep.Conditions.Ready) {
				out[*ep.NodeName] = true
			}
		}
	}
	return out
}

// ingress is the status of a Service with a load balancer at address.
func ingress(address string) []corev1.LoadBalancerIngress {
	mode := corev1.LoadBalancerIPModeProxy // The cloud is a proxy, so pods must not bypass it by the rules of the Service.
	return []corev1.LoadBalancerIngress{{IP: address, IPMode: &mode}}
}

// completeNode fills in what the cloud knows about a node and reports whether anything was missing.
func completeNode(node *corev1.Node, instance *cloud.Instance) bool {
	changed := false
	if node.Spec.ProviderID == "" {
		node.Spec.ProviderID, changed = instance.ProviderID, true
	}
	for key, value := range map[string]string{
		corev1.LabelTopologyRegion:     instance.Region,
		corev1.LabelTopologyZone:       instance.Zone,
		corev1.LabelInstanceTypeStable: instance.MachineType,
	} {
		if value != "" && node.Labels[key] == "" {
			if node.Labels == nil {
				node.Labels = map[string]string{}
			}
			node.Labels[key], changed = value, true
		}
	}
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints),
		func(t corev1.Taint) bool { return t.Key == taintUninitialized })
	if len(taints) != len(node.Spec.Taints) {
		node.Spec.Taints, changed = taints, true
	}
	return changed
}

// taintUninitialized is set by kubelets that leave the rest to a cloud controller.
const taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// nodeComplete reports, without a request to the cloud, whether completeNode has nothing to do.
func nodeComplete(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == taintUninitialized {
			return false
		}
	}
	return node.Spec.ProviderID != "" && node.Labels[corev1.LabelTopologyRegion] != "" &&
		node.Labels[corev1.LabelTopologyZone] != "" && node.Labels[corev1.LabelInstanceTypeStable] != "" &&
		hasInternalIP(node)
}

func hasInternalIP(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Addresses,
		func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
}
