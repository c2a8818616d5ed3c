// Package hook makes the container runtime wait until a new pod has its rules.
//
// [Plugin] is the CNI plugin hortus-policy, the last one in the chain: it reports the pod and its addresses to the
// network agent of the node and waits for the answer. [Server] is the agent's side. They talk over a unix socket: one
// request and one reply per connection, each a JSON object.
//
// The package needs the standard library only, because the plugin is a program of its own that starts for every pod.
package hook
