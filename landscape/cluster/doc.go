// Package cluster describes the Kubernetes clusters that the landscape itself stands on: each a single instance of the
// local cloud on which a kubelet runs the control plane as static pods.
//
// [NewPKI] makes a cluster's certificate authorities, once. [UserData] renders what the instance is made with;
// [AdminKubeconfig] is the way in; [Addons] are the objects to apply once the API server answers: kube-proxy and DNS.
// Apart from the keys and certificates, which are drawn anew at each call, everything follows from [Values].
package cluster
