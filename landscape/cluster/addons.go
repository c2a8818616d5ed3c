package cluster

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/coredns"
	"hortus.dev/hortus/internal/component/kubeproxy"
)

// Addons returns the objects that make Services and names work in the cluster; they are the same as in Shoots. DNS
// forwards other names to the instance's name server, which is the cloud's.
func Addons(v Values) ([]client.Object, error) {
	dns, err := v.serviceIP(dnsIPIndex)
	if err != nil {
		return nil, err
	}
	proxy, err := kubeproxy.Render(kubeproxy.Values{
		Pools:        []kubeproxy.Pool{{Name: nodePool, Image: v.Images.KubeProxy}},
		APIServerURL: localServer,
		CABundle:     v.PKI.CA.CertPEM,
		PodCIDR:      v.PodCIDR,
		Mode:         corev1beta1.ProxyModeNFTables,
	})
	if err != nil {
		return nil, err
	}
	return append(proxy, coredns.Render(coredns.Values{Image: v.Images.CoreDNS, ClusterIP: dns.String(), Replicas: 1})...), nil
}
