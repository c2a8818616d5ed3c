package selfupdate

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/gardenlet/chartvalues"
)

// kubeconfig is what the present gardenlet was installed with: the value of the chart, the Secret that the chart makes
// of it, and the text.
type kubeconfig struct {
	value, secret, text string
}

// render returns the objects of a gardenlet from the archive of its chart. Its access to the garden stays the same: the
// Secret with it is left to operators, who may have to replace it.
func render(
	archive []byte, gardenlet *seedmanagementv1alpha1.Gardenlet, access kubeconfig, capabilities chart.Capabilities,
) ([]client.Object, error) {
	loaded, err := chart.LoadArchive(archive)
	if err != nil {
		return nil, err
	}
	spec, config := &gardenlet.Spec, map[string]any{}
	if err := chartvalues.Config(config, spec.Config, "spec.config", gardenlet.Name); err != nil {
		return nil, err
	}
	image, _ := loaded.Values["image"].(string)
	values, err := chartvalues.Deployment(&spec.Deployment.GardenletDeployment, image)
	if err != nil {
		return nil, fmt.Errorf("spec.deployment: %w", err)
	}
	if values["image"] == "" {
		return nil, errors.New("spec.deployment.image: required value, since the chart names no image")
	}
	values["config"], values[access.value] = config, access.text
	release := chart.Release{Name: name, Namespace: namespace, Capabilities: capabilities}
	rendered, err := chart.Render(loaded, release, values)
	if err != nil {
		return nil, err
	}
	out := make([]client.Object, 0, len(rendered))
	for _, o := range rendered {
		if o.GetKind() == "Secret" && o.GetName() == access.secret {
			o.SetAnnotations(map[string]string{resourcesv1alpha1.AnnotationMode: resourcesv1alpha1.ModeIgnore})
		}
		out = append(out, o)
	}
	return out, nil
}
