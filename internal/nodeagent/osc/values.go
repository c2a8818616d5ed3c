package osc

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// Values describe a worker pool.
type Values struct {
	// Type is the OperatingSystemConfig's type, which is the name of the machine image; ProviderConfig goes to the
	// extension that handles it.
	Type           string
	ProviderConfig *runtime.RawExtension

	// SecretName is the Secret in kube-system that the reconcile contents are delivered in.
	SecretName string
	// KubernetesVersion of the pool, without a leading v.
	KubernetesVersion string
	// APIServerURL is the URL of the API server for machines; CABundle (PEM) verifies its certificate.
	APIServerURL string
	CABundle     []byte
	// KubeletCABundle (PEM) verifies the clients of kubelets; empty means CABundle.
	KubeletCABundle []byte
	// RootCAs (PEM) are further CAs that programs on the machine shall trust; may be empty.
	RootCAs []byte

	// AuthorizedKeys are the SSH keys of people who may log in to machines, one per line; empty means that nobody may.
	AuthorizedKeys []byte

	// Images. The kubelet is taken out of KubeletImage, the node agent out of HortusImage.
	HortusImage  string
	KubeletImage string
	SandboxImage string

	// Kubelet is the pool's effective kubelet configuration; nil means all defaults.
	Kubelet *corev1beta1.KubeletConfig
	// ClusterDNS are the addresses of the cluster's DNS Service, ClusterDomain its zone (default cluster.local).
	ClusterDNS    []string
	ClusterDomain string
	// Labels and Taints are the ones that Nodes register with. Labels that a kubelet must not set are left out.
	Labels map[string]string
	Taints []corev1.Taint

	// InPlaceUpdates is set for pools that are updated in place.
	InPlaceUpdates *extensionsv1alpha1.InPlaceUpdates
}

const (
	programInHortusImage  = "/usr/local/bin/hortus"
	programInKubeletImage = "/usr/local/bin/kubelet"

	// taintCriticalComponents keeps pods off a new node until the resource manager has seen its critical components.
	taintCriticalComponents = "node.gardener.cloud/critical-components-not-ready"

	executable = 0o755
	private    = 0o600
	readable   = 0o644
)

func inline(path string, mode uint32, content string) extensionsv1alpha1.File {
	return extensionsv1alpha1.File{
		Path: path, Permissions: ptr.To(mode),
		Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: content}},
	}
}

// placeholder is a file whose content the machine controller replaces for each machine.
func placeholder(path, content string) extensionsv1alpha1.File {
	file := inline(path, private, content)
	file.Content.TransmitUnencoded = ptr.To(true)
	return file
}

func fromImage(path, image, pathInImage string) extensionsv1alpha1.File {
	return extensionsv1alpha1.File{
		Path: path, Permissions: ptr.To[uint32](executable),
		Content: extensionsv1alpha1.FileContent{
			ImageRef: &extensionsv1alpha1.FileContentImageRef{Image: image, FilePathInImage: pathInImage},
		},
	}
}

func (v Values) agentConfig() string {
	out, err := config.Configuration{
		APIServer: config.APIServer{Server: v.APIServerURL, CABundle: v.CABundle},
		Controllers: config.Controllers{OperatingSystemConfig: config.OperatingSystemConfig{
			SecretName: v.SecretName, KubernetesVersion: v.KubernetesVersion,
		}},
	}.Render()
	if err != nil {
		panic(err) // Strings and bytes can always be encoded.
	}
	return string(out)
}
