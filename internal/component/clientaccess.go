package component

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/pki"
)

// ClientAccess gives a control plane component access to the Shoot's API with a client certificate.
type ClientAccess struct {
	// CASecret is the bundle of the cluster CA; CertSecret has tls.crt and tls.key; both of the secrets manager.
	CASecret   string
	CertSecret string
}

// ClientAccessPath is the directory of Mount; the kubeconfig is the file of that name in it.
const ClientAccessPath = "/var/run/secrets/hortus.dev/shoot"

// APIServerURL is the URL of the Shoot's API server for components in the same namespace.
const APIServerURL = "https://kube-apiserver"

// Mount joins CA bundle, certificate and a kubeconfig that refers to both, which sits in the ConfigMap or Secret named
// kubeconfigMap. Rotated certificates have new names, so pods are replaced and nothing has to be reloaded.
func (a ClientAccess) Mount(kubeconfigMap string) Mount {
	return a.mount("shoot-access", ClientAccessPath, kubeconfigMap)
}

// GenericMount is like Mount, but as the volume and at the path where sidecars of extensions look for a kubeconfig:
// "kubeconfig" at [GenericKubeconfigPath].
func (a ClientAccess) GenericMount(kubeconfigMap string) Mount {
	return a.mount(genericKubeconfigVolume, GenericKubeconfigPath, kubeconfigMap)
}

func (a ClientAccess) mount(name, path, kubeconfigMap string) Mount {
	return Mount{Name: name, Path: path,
		Source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr.To(int32(0o640)),
			Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: a.CASecret},
					Items:                []corev1.KeyToPath{{Key: "bundle.crt", Path: "ca.crt"}},
				}},
				{Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: a.CertSecret},
					Items:                []corev1.KeyToPath{{Key: "tls.crt", Path: "tls.crt"}, {Key: "tls.key", Path: "tls.key"}},
				}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: kubeconfigMap},
					Items:                []corev1.KeyToPath{{Key: "kubeconfig", Path: "kubeconfig"}},
				}},
			},
		}}}
}

// ClientKubeconfig returns the kubeconfig for ClientAccess.Mount. It contains no secrets.
func ClientKubeconfig() string { return clientKubeconfig(ClientAccessPath) }

// GenericClientKubeconfig returns the kubeconfig for ClientAccess.GenericMount. It contains no secrets.
func GenericClientKubeconfig() string { return clientKubeconfig(GenericKubeconfigPath) }

func clientKubeconfig(path string) string {
	out, err := pki.Kubeconfig{
		Name:           "shoot",
		Server:         APIServerURL,
		CAFile:         path + "/ca.crt",
		ClientCertFile: path + "/tls.crt",
		ClientKeyFile:  path + "/tls.key",
	}.Render()
	if err != nil {
		panic(fmt.Sprintf("component: render kubeconfig: %v", err)) // Of constants.
	}
	return string(out)
}
