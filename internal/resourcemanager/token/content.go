package token

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

const (
	dataToken      = "token"
	dataKubeconfig = "kubeconfig"
	dataBundle     = "bundle.crt"
)

// credentials are what a Secret gets.
type credentials struct {
	token  string
	bundle []byte // CA certificates; empty if the Secret does not request any.
}

// CABundleOf returns a function that reads the CA certificates of a configuration, which may be in a file that changes.
func CABundleOf(config *rest.Config) func() ([]byte, error) {
	return func() ([]byte, error) {
		if len(config.CAData) > 0 || config.CAFile == "" {
			return config.CAData, nil
		}
		bundle, err := os.ReadFile(config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA certificates of the target: %w", err)
		}
		return bundle, nil
	}
}

func wantsBundle(secret *corev1.Secret) bool {
	wanted, _ := strconv.ParseBool(secret.Annotations[resourcesv1alpha1.AnnotationInjectCABundle])
	return wanted
}

// bundle returns the CA certificates that a Secret requests.
func (r *Reconciler) bundle(secret *corev1.Secret) ([]byte, error) {
	if !wantsBundle(secret) || r.CABundle == nil {
		return nil, nil
	}
	return r.CABundle()
}

func hasToken(s *corev1.Secret) bool {
	if config := s.Data[dataKubeconfig]; config != nil {
		loaded, err := clientcmd.Load(config)
		if err != nil {
			return false
		}
		for _, user := range loaded.AuthInfos {
			if user.Token != "" {
				return true
			}
		}
		return false
	}
	return len(s.Data[dataToken]) > 0
}

// hasBundle reports whether the Secret that holds the token has the CA certificates, or has no place for them.
func hasBundle(s *corev1.Secret, bundle []byte) bool {
	if len(bundle) == 0 {
		return true
	}
	raw := s.Data[dataKubeconfig]
	if raw == nil {
		return bytes.Equal(s.Data[dataBundle], bundle)
	}
	config, err := clientcmd.Load(raw)
	if err != nil {
		return false
	}
	cluster := currentCluster(config)
	return cluster == nil || bytes.Equal(cluster.CertificateAuthorityData, bundle)
}

// currentCluster returns the cluster of the current context, or nil.
func currentCluster(config *clientcmdapi.Config) *clientcmdapi.Cluster {
	if current := config.Contexts[config.CurrentContext]; current != nil {
		return config.Clusters[current.Cluster]
	}
	return nil
}

// write puts the credentials into a kubeconfig if there is one, else into keys of their own.
func (c credentials) write(secret *corev1.Secret, kubeconfig []byte) error {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if kubeconfig == nil {
		secret.Data[dataToken] = []byte(c.token)
		if len(c.bundle) > 0 {
			secret.Data[dataBundle] = c.bundle
		}
		return nil
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if current := config.Contexts[config.CurrentContext]; current != nil {
		config.AuthInfos = map[string]*clientcmdapi.AuthInfo{current.AuthInfo: {Token: c.token}}
	}
	if cluster := currentCluster(config); cluster != nil && len(c.bundle) > 0 {
		cluster.CertificateAuthorityData, cluster.CertificateAuthority, cluster.InsecureSkipTLSVerify = c.bundle, "", false
	}
	written, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	secret.Data[dataKubeconfig] = written
	return nil
}
