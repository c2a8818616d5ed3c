// Package machineinit is process 1 of a machine of the local cloud: a privileged container that behaves like a virtual
// machine. [Boot] prepares cgroups, mounts and network files, applies the user data, and then keeps the machine's units
// running (package unit) until it is stopped. [Control] is the command line for people and scripts inside.
//
// The cloud writes a machine's description of itself to [InstanceDir]: [Metadata], user data and the certificate
// authority of the cloud's own endpoints. It also gives the machine its network namespace with an address and a default
// route, and a directory of the host's disk at /var/lib, since the root of a container is an overlay, on which
// containerd cannot have its own.
//
// The binary is part of machine images, so nothing of Kubernetes is imported here.
package machineinit
