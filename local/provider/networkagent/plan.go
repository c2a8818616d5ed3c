package networkagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// Route leads to the pods of another machine.
type Route struct {
	Destination netip.Prefix // Pods of the machine.
	Gateway     netip.Addr   // Address of the machine.
}

// State is the desired state of a machine.
type State struct {
	Pods   netip.Prefix // The machine's own pods; invalid until the Node has a pod network.
	Routes []Route      // Sorted by destination.
}

// Decide computes the desired state of the machine of the Node called self. Nodes without pod network or address are
// left out: they have no pods yet. Pod networks that do not parse are left out too; the API server does not accept
// them.
func Decide(nodes []corev1.Node, self string) State {
	var out State
	for i := range nodes {
		pods, ok := podNetwork(&nodes[i])
		if !ok {
			continue
		}
		if nodes[i].Name == self {
			out.Pods = pods
			continue
		}
		if gateway, ok := internalIP(&nodes[i]); ok {
			out.Routes = append(out.Routes, Route{Destination: pods, Gateway: gateway})
		}
	}
	slices.SortFunc(out.Routes, func(a, b Route) int {
		return cmp.Or(a.Destination.Addr().Compare(b.Destination.Addr()), a.Gateway.Compare(b.Gateway))
	})
	return out
}

func podNetwork(node *corev1.Node) (netip.Prefix, bool) {
	cidrs := node.Spec.PodCIDRs
	if len(cidrs) == 0 && node.Spec.PodCIDR != "" {
		cidrs = []string{node.Spec.PodCIDR}
	}
	for _, cidr := range cidrs {
		if p, err := netip.ParsePrefix(cidr); err == nil && p.Addr().Is4() {
			return p.Masked(), true
		}
	}
	return netip.Prefix{}, false
}

func internalIP(node *corev1.Node) (netip.Addr, bool) {
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// CNIConfig renders the CNI configuration for a machine whose pods are in the given network. The bridge plugin does not
// masquerade: one rule per machine does, and it spares traffic between pods of different machines. The last plugin
// waits until the pod's policies are in force, so it has to come when the network is complete.
func CNIConfig(pods netip.Prefix) []byte {
	type object = map[string]any
	data, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       "hortus",
		"plugins": []object{
			{
				"type":             "bridge",
				"bridge":           "cni0",
				"isDefaultGateway": true,
				"hairpinMode":      true,
				"ipMasq":           false,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": pods.String()}}},
				},
			},
			{
				"type":         "portmap",
				"backend":      "nftables", // The machine has no iptables.
				"capabilities": object{"portMappings": true},
			},
			{"type": hook.PluginName},
		},
	}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("encode CNI configuration: %v", err)) // Only strings and booleans: cannot happen.
	}
	return append(data, '\n')
}
