package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig describes access to a cluster. One kind of credentials is set: a client certificate, a token, or files
// with either that may be replaced.
type Kubeconfig struct {
	// Name of cluster, user and context in the file. Default "default".
	Name string
	// Server is the URL of the API server.
	Server string
	// TLSServerName is compared with the server's certificate instead of the host of Server. Default: the host.
	TLSServerName string
	// CAPEM is the CA bundle for the server's certificate; CAFile is a file with it.
	CAPEM  []byte
	CAFile string
	// Namespace is the context's default namespace. Default "default".
	Namespace string

	// Client is a client certificate.
	Client *KeyPair
	// ClientCertFile and ClientKeyFile name a client certificate that is renewed in place, such as the kubelet's.
	ClientCertFile string
	ClientKeyFile  string
	// Token is a bearer token; TokenFile is a file with it.
	Token     string
	TokenFile string
}

// Render returns the kubeconfig as YAML.
func (k Kubeconfig) Render() ([]byte, error) {
	name := k.Name
	if name == "" {
		name = "default"
	}
	user := &clientcmdapi.AuthInfo{
		ClientCertificate: k.ClientCertFile,
		ClientKey:         k.ClientKeyFile,
		Token:             k.Token,
		TokenFile:         k.TokenFile,
	}
	if k.Client != nil {
		user.ClientCertificateData, user.ClientKeyData = k.Client.CertPEM, k.Client.KeyPEM
	}
	out, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   k.Server,
			TLSServerName:            k.TLSServerName,
			CertificateAuthority:     k.CAFile,
			CertificateAuthorityData: k.CAPEM,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: k.Namespace}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("render kubeconfig for %s: %w", k.Server, err)
	}
	return out, nil
}
