// Package cluster describes the landscape's own clusters: Kubernetes on one machine of the local cloud.
//
// NewPKI makes the credentials once, UserData the configuration of the machine, and Addons what has to be applied when
// the API server answers. As with kubeadm, a kubelet runs etcd and the control plane as static pods; everything is a
// pure function of its values.
package cluster
