package cluster

import (
	"fmt"
	"net"

	netutils "k8s.io/utils/net"
)

const (
	// APIPort is where the API server listens on the instance.
	APIPort = 6443
	// ClusterDomain is the zone of Services.
	ClusterDomain = "cluster.local"
	// maxPods of the node, far above the usual 110: the control planes of all Shoots run on it. The pod network
	// has to have as many addresses.
	maxPods = 1000
	// nodePool is the pool that the node is labelled with, since add-ons are rendered per pool.
	nodePool = "landscape"
)

// Images of the components.
type Images struct {
	Kubelet, KubeAPIServer, KubeControllerManager, KubeScheduler, KubeProxy string
	Etcd, CoreDNS                                                           string
}

// Values describe a cluster.
type Values struct {
	// Name of the cluster. The instance has to have the same name, since the node is called like its host.
	Name   string
	Images Images
	// PodCIDR and ServiceCIDR may overlap neither each other nor the network of the instance.
	PodCIDR, ServiceCIDR string
	// ExtraSANs are further names and addresses by which clients reach the API server, such as that of a load balancer.
	ExtraSANs []string
	PKI       *PKI
}

// serviceIP returns the n-th address of the Service network: 1 is the API server's, 10 that of DNS.
func (v Values) serviceIP(n int) (net.IP, error) {
	_, network, err := netutils.ParseCIDRSloppy(v.ServiceCIDR)
	if err != nil {
		return nil, fmt.Errorf("parse service CIDR: %w", err)
	}
	ip, err := netutils.GetIndexedIP(network, n)
	if err != nil {
		return nil, fmt.Errorf("service CIDR %s: %w", v.ServiceCIDR, err)
	}
	return ip, nil
}

const (
	apiServerIPIndex = 1
	dnsIPIndex       = 10
)
