package cluster

import (
	"fmt"
	"net"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// PKI is what a cluster's identity hangs on. It has to be kept as long as the cluster lives.
type PKI struct {
	CA           pki.KeyPair `json:"ca"`
	FrontProxyCA pki.KeyPair `json:"frontProxyCA"`
	EtcdCA       pki.KeyPair `json:"etcdCA"`
	// ServiceAccount signs tokens: CertPEM is the public key.
	ServiceAccount pki.KeyPair `json:"serviceAccount"`
	// Server and the others below are leaves, kept so that user data stays the same from call to call.
	Server, KubeletClient, KubeletServer, APIToKubelet, FrontProxyClient, EtcdServer, EtcdClient pki.KeyPair
	ControllerManager, Scheduler, Admin                                                          pki.KeyPair
}

// NewPKI makes authorities, keys and certificates of a cluster. All last ten years: a landscape for development is
// made anew long before, and has nobody who would renew them.
func NewPKI(v Values, c clock.PassiveClock) (*PKI, error) {
	serviceIP, err := v.serviceIP(apiServerIPIndex)
	if err != nil {
		return nil, err
	}
	p := &PKI{}
	authorities := map[*pki.KeyPair]*pki.CA{}
	for target, name := range map[*pki.KeyPair]string{&p.CA: "kubernetes", &p.FrontProxyCA: "front-proxy", &p.EtcdCA: "etcd"} {
		ca, err := pki.NewCA(v.Name+"-"+name, c)
		if err != nil {
			return nil, err
		}
		*target, authorities[target] = ca.KeyPair, ca
	}
	if p.ServiceAccount.KeyPEM, p.ServiceAccount.CertPEM, err = pki.NewSigningKey(); err != nil {
		return nil, err
	}
	names, ips := v.serverNames(serviceIP)
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	client := func(name string, groups ...string) pki.Request {
		return pki.Request{CommonName: name, Organizations: groups, Usage: pki.Client}
	}
	for _, leaf := range []struct {
		target, ca *pki.KeyPair
		request    pki.Request
	}{
		{&p.Server, &p.CA, pki.Request{CommonName: "kube-apiserver", DNSNames: names, IPs: ips, Usage: pki.Server}},
		{&p.KubeletClient, &p.CA, client("system:node:"+v.Name, "system:nodes")},
		{&p.KubeletServer, &p.CA, pki.Request{CommonName: "system:node:" + v.Name, DNSNames: []string{v.Name}, Usage: pki.Server}},
		{&p.APIToKubelet, &p.CA, client("kube-apiserver-kubelet-client", "system:masters")},
		{&p.FrontProxyClient, &p.FrontProxyCA, client("front-proxy-client")},
		{&p.EtcdServer, &p.EtcdCA, pki.Request{CommonName: "etcd", DNSNames: []string{"localhost"}, IPs: loopback, Usage: pki.Server | pki.Client}},
		{&p.EtcdClient, &p.EtcdCA, client("kube-apiserver-etcd-client")},
		{&p.ControllerManager, &p.CA, client("system:kube-controller-manager")},
		{&p.Scheduler, &p.CA, client("system:kube-scheduler")},
		{&p.Admin, &p.CA, client("landscape-admin", "system:masters")},
	} {
		pair, err := authorities[leaf.ca].Issue(leaf.request)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", v.Name, err)
		}
		*leaf.target = *pair
	}
	return p, nil
}

// serverNames returns what the API server's certificate is good for.
func (v Values) serverNames(serviceIP net.IP) ([]string, []net.IP) {
	names := []string{
		"localhost", v.Name, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + ClusterDomain,
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 1), serviceIP}
	for _, san := range v.ExtraSANs {
		if ip := net.ParseIP(san); ip != nil {
			ips = append(ips, ip)
		} else {
			names = append(names, san)
		}
	}
	return names, ips
}

// AdminKubeconfig returns a kubeconfig for everything in the cluster. Server is the URL by which the API server is
// reached; its host has to be among the certificate's names.
func AdminKubeconfig(v Values, server string) ([]byte, error) {
	return pki.Kubeconfig{Name: v.Name, Server: server, CAPEM: v.PKI.CA.CertPEM, Client: &v.PKI.Admin}.Render()
}
