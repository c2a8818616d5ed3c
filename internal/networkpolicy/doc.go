// Package networkpolicy decides which NetworkPolicies there are in a seed. Nothing may be reached by default; what a
// pod may reach is in its labels, so that components and extensions of others get through by labels alone:
//
//   - networking.gardener.cloud/to-dns and the like open ways out of the namespace, see [General];
//   - networking.resources.gardener.cloud/to-<service>-<protocol>-<port> opens the way to a Service, see [OfService].
//
// Pods are let in by the Service in front of them: its ports are open to pods with the label, in its own namespace and
// in those that its annotations name.
package networkpolicy
