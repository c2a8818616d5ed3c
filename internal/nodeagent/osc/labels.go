package osc

import (
	"maps"
	"slices"
	"strings"
)

// kubeletLabels are the labels under kubernetes.io and k8s.io that a kubelet may give its own Node, besides those with
// the prefixes below; with any other it refuses to start (k8s.io/kubelet/pkg/apis/well_known_labels.go).
var kubeletLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

func mayKubeletSet(label string) bool {
	namespace, _, found := strings.Cut(label, "/")
	if !found || !under(namespace, "kubernetes.io") && !under(namespace, "k8s.io") {
		return true
	}
	return slices.Contains(kubeletLabels, label) || under(namespace, "kubelet.kubernetes.io") ||
		under(namespace, "node.kubernetes.io")
}

func under(namespace, domain string) bool {
	return namespace == domain || strings.HasSuffix(namespace, "."+domain)
}

// labelFlag returns the labels in the kubelet's notation, sorted.
func labelFlag(labels map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if mayKubeletSet(key) {
			list = append(list, key+"="+labels[key])
		}
	}
	return strings.Join(list, ",")
}
