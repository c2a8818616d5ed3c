package gardenletchart

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/kube"
)

const (
	// Name of the chart's release.
	Name = "gardenlet"
	// Namespace of a gardenlet in its seed.
	Namespace = corev1beta1.GardenNamespace
	// KeyKubeconfig is the key of the kubeconfig in the Secrets of the chart.
	KeyKubeconfig = "kubeconfig"
	// CertificateSecret is where the gardenlet keeps its certificate for the garden, as a kubeconfig.
	CertificateSecret = "gardenlet-kubeconfig"
	// BootstrapSecret is made of the value bootstrapKubeconfig.
	BootstrapSecret = "gardenlet-kubeconfig-bootstrap"
)

// Access is how a gardenlet reaches the garden when it starts for the first time: the chart's value that contains the
// kubeconfig, the Secret that the chart makes of it, and the text.
type Access struct {
	Value, Secret, Text string
}

// Accesses are the two kinds of access, without text.
var Accesses = []Access{
	{Value: GardenKubeconfig, Secret: "gardenlet-kubeconfig-garden"},
	{Value: BootstrapKubeconfig, Secret: BootstrapSecret},
}

// AccessIn returns the access that the gardenlet in a cluster was installed with; without text if there is none.
func AccessIn(ctx context.Context, cluster client.Reader) (Access, error) {
	for _, a := range Accesses {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: a.Secret}}
		found, err := kube.Exists(ctx, cluster, secret)
		if err != nil {
			return Access{}, err
		}
		if found {
			a.Text = string(secret.Data[KeyKubeconfig])
			return a, nil
		}
	}
	return Access{}, nil
}

// Render returns the objects of the gardenlet of a Gardenlet, from the archive of its chart.
func Render(
	archive []byte, gardenlet *seedmanagementv1alpha1.Gardenlet, access Access, capabilities chart.Capabilities,
) ([]*unstructured.Unstructured, error) {
	loaded, err := chart.LoadArchive(archive)
	if err != nil {
		return nil, err
	}
	spec, config := &gardenlet.Spec, map[string]any{}
	if err := Config(config, spec.Config, "spec.config", gardenlet.Name); err != nil {
		return nil, err
	}
	image, _ := loaded.Values["image"].(string)
	values, err := Deployment(&spec.Deployment.GardenletDeployment, image)
	if err != nil {
		return nil, fmt.Errorf("spec.deployment: %w", err)
	}
	if values["image"] == "" {
		return nil, errors.New("spec.deployment.image: required value, since the chart names no image")
	}
	values["config"], values[access.Value] = config, access.Text
	release := chart.Release{Name: Name, Namespace: Namespace, Capabilities: capabilities}
	return chart.Render(loaded, release, values)
}
