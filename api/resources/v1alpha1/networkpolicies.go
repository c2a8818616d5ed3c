package v1alpha1

import "fmt"

// NetworkPolicyAllowed is the value of all labels below.
const NetworkPolicyAllowed = "allowed"

// Labels of pods in namespaces of a seed in which all egress is denied by default. Each allows egress to one kind of
// target.
const (
	// LabelNetworkPolicyToDNS lets a pod resolve names.
	LabelNetworkPolicyToDNS = "networking.gardener.cloud/to-dns"
	// LabelNetworkPolicyToRuntimeAPIServer lets a pod reach the API server of the cluster that it runs in.
	LabelNetworkPolicyToRuntimeAPIServer = "networking.gardener.cloud/to-runtime-apiserver"
	// LabelNetworkPolicyToPublicNetworks lets a pod reach public addresses, but no blocked ones.
	LabelNetworkPolicyToPublicNetworks = "networking.gardener.cloud/to-public-networks"
	// LabelNetworkPolicyToPrivateNetworks lets a pod reach private addresses, but none of the cluster and no blocked ones.
	LabelNetworkPolicyToPrivateNetworks = "networking.gardener.cloud/to-private-networks"
	// LabelNetworkPolicyToBlockedCIDRs lets a pod reach what the operator has blocked.
	LabelNetworkPolicyToBlockedCIDRs = "networking.gardener.cloud/to-blocked-cidrs"
)

// LabelNetworkPolicyAccessTargetAPIServer, "allowed" on a Namespace, lets labelled pods in it reach the API servers of
// Shoots.
const LabelNetworkPolicyAccessTargetAPIServer = "networking.gardener.cloud/access-target-apiserver"

// Annotations of Services that let more than pods of their own namespace reach them.
const (
	// AnnotationNetworkPolicyNamespaceSelectors is a JSON list of label selectors of namespaces whose pods may reach the
	// Service if they have the label for it.
	AnnotationNetworkPolicyNamespaceSelectors = "networking.resources.gardener.cloud/namespace-selectors"
	// AnnotationNetworkPolicyNamespaceAlias takes the place of the Service's namespace in the labels of pods in other
	// namespaces, so that one label selects the same Service in many namespaces.
	AnnotationNetworkPolicyNamespaceAlias = "networking.resources.gardener.cloud/pod-label-selector-namespace-alias"
	// AnnotationNetworkPolicyFromWorldToPorts is a JSON list of ports that everybody may reach.
	AnnotationNetworkPolicyFromWorldToPorts = "networking.resources.gardener.cloud/from-world-to-ports"
	// AnnotationNetworkPolicyFromPrefix and AnnotationNetworkPolicyFromSuffix enclose the name of a group of targets, such
	// as all-scrape-targets; the value is a JSON list of ports that pods with the label for the group may reach.
	AnnotationNetworkPolicyFromPrefix = "networking.resources.gardener.cloud/from-"
	AnnotationNetworkPolicyFromSuffix = "-allowed-ports"
)

// Groups of targets and aliases of namespaces that the contract defines.
const (
	// NetworkPolicyGroupWebhooks are webhooks for the API servers of Shoots.
	NetworkPolicyGroupWebhooks = "all-webhook-targets"
	// NetworkPolicyAliasExtensions selects the namespaces of all extensions.
	NetworkPolicyAliasExtensions = "extensions"
)

// labelNetworkPolicyTo begins the labels of pods that may reach a Service.
const labelNetworkPolicyTo = "networking.resources.gardener.cloud/to-"

// NetworkPolicyToService returns the label that lets a pod reach a port of a Service in its own namespace. The port is
// that of the pods behind the Service, a number or a name; the protocol is in lower case.
func NetworkPolicyToService(service, protocol, port string) string {
	return fmt.Sprintf("%s%s-%s-%s", labelNetworkPolicyTo, service, protocol, port)
}

// NetworkPolicyToServiceOf is NetworkPolicyToService for a Service of another namespace, or of all namespaces with an
// alias.
func NetworkPolicyToServiceOf(namespaceOrAlias, service, protocol, port string) string {
	return NetworkPolicyToService(namespaceOrAlias+"-"+service, protocol, port)
}

// NetworkPolicyToGroup returns the label that lets a pod reach a group of targets, such as all-scrape-targets.
func NetworkPolicyToGroup(group string) string { return labelNetworkPolicyTo + group }
