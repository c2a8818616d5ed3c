// Package networkpolicy computes the NetworkPolicies of a seed. Nothing may be reached by default; the labels of a pod
// allow destinations, so that components and extensions of others need only labels:
//
//   - networking.gardener.cloud/to-dns and the like allow egress from the namespace, see [General];
//   - networking.resources.gardener.cloud/to-<service>-<protocol>-<port> allows egress to a Service, see [OfService].
//
// Ingress to pods is allowed by the Service in front of them: its ports are open to pods with the label, in its own
// namespace and in the namespaces that its annotations select.
package networkpolicy
