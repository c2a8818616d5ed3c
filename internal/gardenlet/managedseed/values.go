package managedseed

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/gardenletchart"
	"hortus.dev/hortus/internal/pki"
)

const (
	chartName = "gardenlet"
	namespace = corev1beta1.GardenNamespace // Of the gardenlet in the Shoot.
)

// Parent is the gardenlet that installs others.
type Parent struct {
	// Config is merged into the configurations of ManagedSeeds with mergeWithParent.
	Config *config.GardenletConfiguration
	// Image of the gardenlet.
	Image string
}

// own are the parts of a configuration that belong to one gardenlet, and are not merged into that of another one.
var own = []string{"seedConfig", "seedClientConnection", "leaderElection"}

// configuration returns the configuration of the gardenlet of a ManagedSeed without apiVersion and kind. Fields of the
// ManagedSeed win over those of the parent.
func configuration(
	managed *seedmanagementv1alpha1.ManagedSeed, parent *config.GardenletConfiguration,
) (map[string]any, error) {
	gardenlet := &managed.Spec.Gardenlet
	out := map[string]any{}
	if gardenlet.MergeWithParent == nil || *gardenlet.MergeWithParent {
		text, err := json.Marshal(parent)
		if err != nil {
			return nil, fmt.Errorf("encode configuration: %w", err)
		}
		if err := json.Unmarshal(text, &out); err != nil {
			return nil, fmt.Errorf("decode configuration: %w", err)
		}
		for _, key := range own {
			delete(out, key)
		}
	}
	// Its Seed has the same name.
	err := gardenletchart.Config(out, gardenlet.Config, "spec.gardenlet.config", managed.Name)
	return out, err
}

// atAddress changes the address of the garden to the one that the configuration of the gardenlet names, if it does.
func atAddress(
	kubeconfig *pki.Kubeconfig, managed *seedmanagementv1alpha1.ManagedSeed, parent *config.GardenletConfiguration,
) error {
	c, err := parsed(managed, parent)
	if err != nil {
		return err
	}
	if address := c.GardenClientConnection.GardenClusterAddress; address != "" {
		kubeconfig.Server, kubeconfig.TLSServerName = address, ""
	}
	if ca := c.GardenClientConnection.GardenClusterCACert; len(ca) > 0 {
		kubeconfig.CAPEM = ca
	}
	return nil
}

// parsed returns the whole configuration of a gardenlet. Errors in it would otherwise only show in the log of a
// gardenlet that does not start.
func parsed(
	managed *seedmanagementv1alpha1.ManagedSeed, parent *config.GardenletConfiguration,
) (*config.GardenletConfiguration, error) {
	fields, err := configuration(managed, parent)
	if err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = config.GroupVersion, config.Kind
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	c, err := config.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("spec.gardenlet.config, merged with the configuration of the parent: %w", err)
	}
	return c, nil
}

// values are the values of the chart.
func values(
	managed *seedmanagementv1alpha1.ManagedSeed, parent Parent, kubeconfig []byte,
) (map[string]any, error) {
	c, err := configuration(managed, parent.Config)
	if err != nil {
		return nil, err
	}
	out, err := gardenletchart.Deployment(managed.Spec.Gardenlet.Deployment, parent.Image)
	if err != nil {
		return nil, fmt.Errorf("spec.gardenlet.deployment: %w", err)
	}
	out["config"], out[gardenletchart.GardenKubeconfig] = c, string(kubeconfig)
	return out, nil
}

// objects are the objects of the gardenlet.
func objects(managed *seedmanagementv1alpha1.ManagedSeed, parent Parent, kubeconfig []byte) ([]client.Object, error) {
	v, err := values(managed, parent, kubeconfig)
	if err != nil {
		return nil, err
	}
	loaded, err := chart.LoadFS(charts.FS, chartName)
	if err != nil {
		return nil, err
	}
	rendered, err := chart.Render(loaded, chart.Release{Name: chartName, Namespace: namespace}, v)
	if err != nil {
		return nil, err
	}
	out := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{corev1beta1.LabelRole: corev1beta1.RoleGarden},
	}}}
	for _, o := range rendered {
		out = append(out, o)
	}
	return out, nil
}
