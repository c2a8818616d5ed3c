package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// validity of leaf certificates. 'hortus up' renews them. The CAs are never replaced: the landscape is for trying
// things out.
const validity = 5 * 365 * 24 * time.Hour

// PKI is every credential of a cluster. It is made once and kept as JSON.
type PKI struct {
	CA, FrontProxyCA, EtcdCA pki.KeyPair

	APIServer, APIServerKubelet, APIServerEtcd pki.KeyPair
	FrontProxy                                 pki.KeyPair
	EtcdServer                                 pki.KeyPair
	Kubelet, KubeletServing                    pki.KeyPair
	ControllerManager, Scheduler, Admin        pki.KeyPair
	SeedAuthorizer                             pki.KeyPair

	ServiceAccountKey, ServiceAccountPublicKey []byte
	// EncryptionKey is the base64 text of the 32 bytes that encrypt Secrets in etcd.
	EncryptionKey string
}

// NewPKI makes all credentials for the given values.
func NewPKI(v Values, c clock.PassiveClock) (*PKI, error) {
	p := &PKI{}
	ca, err := pki.NewCA(v.Name+"-ca", c)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	frontProxyCA, err := pki.NewCA(v.Name+"-front-proxy", c)
	if err != nil {
		return nil, fmt.Errorf("make front proxy certificate authority: %w", err)
	}
	etcdCA, err := pki.NewCA(v.Name+"-etcd", c)
	if err != nil {
		return nil, fmt.Errorf("make etcd certificate authority: %w", err)
	}
	p.CA, p.FrontProxyCA, p.EtcdCA = ca.KeyPair, frontProxyCA.KeyPair, etcdCA.KeyPair
	if _, err := p.Renew(v, c); err != nil {
		return nil, err
	}
	if p.ServiceAccountKey, p.ServiceAccountPublicKey, err = pki.NewSigningKey(); err != nil {
		return nil, fmt.Errorf("make service account key: %w", err)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make encryption key: %w", err)
	}
	p.EncryptionKey = base64.StdEncoding.EncodeToString(key)
	return p, nil
}

// Renew replaces the certificates that are due, and reports whether there were any.
func (p *PKI) Renew(v Values, c clock.PassiveClock) (bool, error) {
	ca, err := pki.LoadCA(p.CA.CertPEM, p.CA.KeyPEM, c)
	if err != nil {
		return false, fmt.Errorf("load certificate authority: %w", err)
	}
	frontProxyCA, err := pki.LoadCA(p.FrontProxyCA.CertPEM, p.FrontProxyCA.KeyPEM, c)
	if err != nil {
		return false, fmt.Errorf("load front proxy certificate authority: %w", err)
	}
	etcdCA, err := pki.LoadCA(p.EtcdCA.CertPEM, p.EtcdCA.KeyPEM, c)
	if err != nil {
		return false, fmt.Errorf("load etcd certificate authority: %w", err)
	}
	node := net.ParseIP(v.NodeAddress)
	loopback := net.ParseIP("127.0.0.1")
	leaves := []Leaf{
		{&p.APIServer, ca, pki.Request{CommonName: "kube-apiserver", Usage: pki.Server,
			DNSNames: append([]string{
				"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
			}, v.APIServerNames...),
			IPs: []net.IP{node, loopback, net.ParseIP(v.PublicAddress), net.ParseIP(v.APIServiceIP)}}},
		{&p.APIServerKubelet, ca, pki.Request{
			CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}, Usage: pki.Client,
		}},
		{&p.APIServerEtcd, etcdCA, pki.Request{CommonName: "kube-apiserver", Usage: pki.Client}},
		{&p.FrontProxy, frontProxyCA, pki.Request{CommonName: "front-proxy-client", Usage: pki.Client}},
		{&p.EtcdServer, etcdCA, pki.Request{
			CommonName: "etcd", Usage: pki.Server | pki.Client, DNSNames: []string{"localhost"}, IPs: []net.IP{loopback, node},
		}},
		{&p.Kubelet, ca, pki.Request{
			CommonName: "system:node:" + v.Name, Organizations: []string{"system:nodes"}, Usage: pki.Client,
		}},
		{&p.KubeletServing, ca, pki.Request{
			CommonName: "system:node:" + v.Name, Organizations: []string{"system:nodes"}, Usage: pki.Server,
			DNSNames: []string{v.Name}, IPs: []net.IP{node},
		}},
		{&p.ControllerManager, ca, pki.Request{CommonName: "system:kube-controller-manager", Usage: pki.Client}},
		{&p.SeedAuthorizer, ca, pki.Request{CommonName: AuthorizationCaller, Usage: pki.Client}},
		{&p.Scheduler, ca, pki.Request{CommonName: "system:kube-scheduler", Usage: pki.Client}},
		{&p.Admin, ca, pki.Request{
			CommonName: "landscape-admin", Organizations: []string{"system:masters"}, Usage: pki.Client,
		}},
	}
	for i := range leaves {
		leaves[i].Request.Validity = validity
	}
	return Renew(leaves, c)
}

// WorkerPKI are the credentials of a node without a control plane.
type WorkerPKI struct{ Kubelet, KubeletServing pki.KeyPair }

// RenewWorker replaces the credentials of a node that are due, all of them at first, and reports whether there were
// any.
func (p *PKI) RenewWorker(credentials *WorkerPKI, w Worker, c clock.PassiveClock) (bool, error) {
	ca, err := pki.LoadCA(p.CA.CertPEM, p.CA.KeyPEM, c)
	if err != nil {
		return false, fmt.Errorf("load certificate authority: %w", err)
	}
	client := pki.Request{
		CommonName: "system:node:" + w.Name, Organizations: []string{"system:nodes"}, Usage: pki.Client, Validity: validity,
	}
	serving := client
	serving.Usage, serving.DNSNames, serving.IPs = pki.Server, []string{w.Name}, []net.IP{net.ParseIP(w.Address)}
	return Renew([]Leaf{{&credentials.Kubelet, ca, client}, {&credentials.KubeletServing, ca, serving}}, c)
}

// AdminKubeconfig is the kubeconfig of the cluster's administrator.
func (p *PKI) AdminKubeconfig(name, server string) ([]byte, error) {
	return pki.Kubeconfig{Name: name, Server: server, CAPEM: p.CA.CertPEM, Client: &p.Admin}.Render()
}
