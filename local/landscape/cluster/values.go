package cluster

// Values describe a cluster.
type Values struct {
	// Name of the cluster, its first instance and the node on it.
	Name string
	// KubernetesVersion without the leading v.
	KubernetesVersion string
	// NodeAddress is the private address of the instance, PublicAddress that of the load balancer before the API server.
	NodeAddress, PublicAddress string
	// Region and Zone become labels of the node.
	Region, Zone string
	// APIServerNames are further DNS names of the API server.
	APIServerNames []string
	// PodCIDR and ServiceCIDR; APIServiceIP is the first address of the latter, DNSServiceIP that of CoreDNS.
	PodCIDR, ServiceCIDR, APIServiceIP, DNSServiceIP string
	// Pods is the range of the addresses of the node's pods, a part of PodCIDR; Routes lead to the other parts.
	Pods   string
	Routes []Route
	// UpstreamDNS answers names outside the cluster.
	UpstreamDNS string
	// SeedAuthorizer confines gardenlets; nil for clusters without a garden.
	SeedAuthorizer *SeedAuthorizer
	// EtcdBackup is the destination of the backups of etcd; nil for clusters that can be recreated.
	EtcdBackup *EtcdBackup
	Images     Images
}

// Route leads to the pods of another node.
type Route struct{ Pods, Via string }

// Worker is a node without a control plane.
type Worker struct {
	// Name of the node and its instance, and its private address.
	Name, Address, Zone string
	Pods                string
	Routes              []Route
}

// SeedAuthorizer is the webhook by which the garden's API server authorizes gardenlets for the kube-apiserver. The
// address is a Service's, since kube-apiservers do not resolve the names of Services.
type SeedAuthorizer struct {
	Server, TLSServerName string
	// CA of the serving certificate, PEM.
	CA []byte
}

// EtcdBackup is the destination of the backups of etcd.
type EtcdBackup struct {
	// Image has 'hortus etcd run' and etcd. It has no digest: another build of Hortus must not restart the machine.
	Image string
	// Store are the credentials of the object store by key, Prefix is what the names of all backups begin with.
	Store  map[string]string
	Prefix string
}

// AuthorizationCaller is the user as which the kube-apiserver calls the SeedAuthorizer.
const AuthorizationCaller = "kube-apiserver-seed-authorizer"

// Images of the cluster's parts.
type Images struct {
	Kubelet, Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler, KubeProxy, CoreDNS string
}
