package nodeagent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/pki"
)

// Access gives the node agent access to its cluster: first with a bootstrap token, then with a certificate of its own.
type Access struct {
	Root     string // In front of every path; empty outside tests.
	Config   *config.Configuration
	HostName string
	Clock    clock.Clock
}

// certificateWait bounds one wait for a signature; then a new request is made, in case the first was deleted.
const certificateWait = 15 * time.Minute

func (a *Access) path(path string) string { return filepath.Join(a.Root, path) }

// Ensure returns the configuration for access to the API server, and creates it if needed.
func (a *Access) Ensure(ctx context.Context) (*rest.Config, error) {
	path := a.path(config.KubeconfigFile)
	if own, err := clientcmd.BuildConfigFromFlags("", path); err == nil {
		if cert, err := pki.ParseCert(own.CertData); err == nil && a.Clock.Now().Before(cert.NotAfter) {
			return own, a.refresh(own)
		}
	}
	token, err := os.ReadFile(a.path(config.BootstrapTokenFile))
	if err != nil {
		return nil, fmt.Errorf("there is neither a valid kubeconfig nor a bootstrap token: %w", err)
	}
	bootstrap := &rest.Config{
		Host: a.Config.APIServer.Server, BearerToken: strings.TrimSpace(string(token)),
		TLSClientConfig: rest.TLSClientConfig{CAData: a.Config.APIServer.CABundle},
	}
	return a.Renew(ctx, bootstrap)
}

// refresh takes over a changed URL or CA bundle, which come with the configuration.
func (a *Access) refresh(own *rest.Config) error {
	if own.Host == a.Config.APIServer.Server && string(own.CAData) == string(a.Config.APIServer.CABundle) {
		return nil
	}
	own.Host, own.CAData = a.Config.APIServer.Server, a.Config.APIServer.CABundle
	return a.save(pki.KeyPair{CertPEM: own.CertData, KeyPEM: own.KeyData})
}

// Renew requests a certificate with the given access, and stores it.
func (a *Access) Renew(ctx context.Context, with *rest.Config) (*rest.Config, error) {
	machine, err := a.machineName()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(with)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{
			CommonName: corev1beta1.NodeAgentUserPrefix + machine, Organization: []string{corev1beta1.NodeAgentsGroup},
		},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("Requesting certificate", "machine", machine, "server", with.Host)
	ctx, cancel := context.WithTimeout(ctx, certificateWait)
	defer cancel()
	name, uid, err := csr.RequestCertificateWithContext(ctx, client,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), "",
		certificatesv1.KubeAPIServerClientSignerName,
		nil, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, key)
	if err != nil {
		return nil, fmt.Errorf("request certificate: %w", err)
	}
	certPEM, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return nil, fmt.Errorf("wait for certificate: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	if err := a.save(pki.KeyPair{
		CertPEM: certPEM, KeyPEM: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}); err != nil {
		return nil, err
	}
	return clientcmd.BuildConfigFromFlags("", a.path(config.KubeconfigFile))
}

func (a *Access) save(pair pki.KeyPair) error {
	kubeconfig, err := pki.Kubeconfig{
		Name: "node-agent", Server: a.Config.APIServer.Server, CAPEM: a.Config.APIServer.CABundle, Client: &pair,
	}.Render()
	if err != nil {
		return err
	}
	_, err = writeFile(a.path(config.KubeconfigFile), kubeconfig, 0o600)
	return err
}

// machineName is the name of the Machine object; nodes without a machine controller use their host name.
func (a *Access) machineName() (string, error) {
	content, err := os.ReadFile(a.path(config.MachineNameFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read machine name: %w", err)
	}
	name := strings.TrimSpace(string(content))
	if name == "" || name == config.MachineNamePlaceholder {
		return a.HostName, nil
	}
	return name, nil
}

// PrepareKubelet gives the kubelet the credentials to join, unless it has joined.
func (a *Access) PrepareKubelet(context.Context) error {
	if fileExists(a.path(config.KubeletKubeconfig)) {
		return nil
	}
	token, err := os.ReadFile(a.path(config.BootstrapTokenFile))
	if err != nil {
		return fmt.Errorf("read bootstrap token for the kubelet: %w", err)
	}
	kubeconfig, err := pki.Kubeconfig{
		Name: "kubelet-bootstrap", Server: a.Config.APIServer.Server, CAPEM: a.Config.APIServer.CABundle,
		Token: strings.TrimSpace(string(token)),
	}.Render()
	if err != nil {
		return err
	}
	_, err = writeFile(a.path(config.KubeletBootstrapKubeconfig), kubeconfig, 0o600)
	return err
}

// AsKubelet returns a client with the kubelet's credentials, which may list and delete the pods of this node, and no
// others.
func (a *Access) AsKubelet() (kubernetes.Interface, error) {
	kubelet, err := clientcmd.BuildConfigFromFlags("", a.path(config.KubeletKubeconfig))
	if err != nil {
		return nil, fmt.Errorf("read access of the kubelet: %w", err)
	}
	client, err := kubernetes.NewForConfig(kubelet)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// RemoveBootstrap removes the bootstrap token once node agent and kubelet no longer need it.
func (a *Access) RemoveBootstrap() error {
	if !fileExists(a.path(config.KubeletKubeconfig)) {
		return nil
	}
	return errors.Join(removeFile(a.path(config.KubeletBootstrapKubeconfig)),
		removeFile(a.path(config.BootstrapTokenFile)))
}

// renewAt returns the time at which a certificate is replaced: after 80 % of its life, as kubelets do on average.
func renewAt(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) * 8 / 10)
}

// KeepRenewing replaces the certificate when it is time, and then calls restart, so that all connections use it.
func (a *Access) KeepRenewing(ctx context.Context, own *rest.Config, restart func()) error {
	cert, err := pki.ParseCert(own.CertData)
	if err != nil {
		return fmt.Errorf("read own certificate: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.Clock.After(max(renewAt(cert).Sub(a.Clock.Now()), 0)):
		}
		if _, err := a.Renew(ctx, own); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Certificate cannot be renewed; trying again")
			select {
			case <-ctx.Done():
				return nil
			case <-a.Clock.After(time.Minute):
			}
			continue
		}
		restart()
		return nil
	}
}
