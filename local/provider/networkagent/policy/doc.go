// Package policy enforces NetworkPolicies (networking.k8s.io/v1) on one node, with nftables and for IPv4.
//
// [Decide] is pure: from all Pods, Namespaces and NetworkPolicies to a [Ruleset], which describes the content of one
// nftables table. [Diff] is pure as well: from one Ruleset to the next, as a [Change]. [Table] writes either into the
// kernel in one transaction. [Controller] watches the objects and calls them.
//
// # Layout
//
// The table has two base chains on the forward hook: forward-egress for packets that pods of this node send,
// forward-ingress for packets that they receive. A packet between two pods of the node passes both: accepting it in the
// first does not end the second. The base chain input-egress, on the input hook, is for packets that pods send to their
// own node. Packets that the node itself sends pass none of them, so kubelet probes are never refused. All hooks come
// after the address translation of Services, so that policies see the addresses of pods.
//
// A verdict map per direction leads from the address of a pod to the chain of the policies that select it. Pods
// selected by the same policies share a chain, whose name is a checksum of its rules; therefore a chain is never
// changed but replaced. The rules match named sets: the addresses of the pods that peers select, the ranges of
// ipBlocks, and the named ports of pods. A pod that starts or ends changes elements of maps and sets only.
//
// A second table, for IPv6, drops packets between link-local addresses of pods of one bridge.
//
// # How a pod starts
//
// The CNI plugin of the package hook reports the addresses of a pod of this node before its containers start.
// [Controller.Confine] applies the rules and answers. The pod has these addresses, whatever statuses say, until
// [Controller.Release], or until its Pod is gone. Packets from an address that no pod is known to have are dropped
// instead of refused, since a pod of another node may just have got the address: the client sends them again.
//
// # What remains open
//
//   - Agents of other nodes learn the address of a pod from its status. Until that has arrived, about a second after
//     the pod has started, they do not admit the pod as a peer.
//   - A new process of the agent knows only the status, too: a pod without address in its status is not restricted
//     until it has one.
//   - Connections that exist when a policy begins to refuse them continue until they end.
//   - Packets between two pods of one bridge pass the hooks only where the kernel module br_netfilter is loaded.
//   - Rules judge addresses. A pod that may use raw sockets can send packets with the address of another.
package policy
