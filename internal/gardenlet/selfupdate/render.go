package selfupdate

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/gardenletchart"
)

// render returns the objects of a gardenlet from the archive of its chart. Its access to the garden stays the same: the
// Secret with it is left to operators, who may have to replace it.
func render(
	archive []byte, gardenlet *seedmanagementv1alpha1.Gardenlet, access gardenletchart.Access,
	capabilities chart.Capabilities,
) ([]client.Object, error) {
	rendered, err := gardenletchart.Render(archive, gardenlet, access, capabilities)
	if err != nil {
		return nil, err
	}
	out := make([]client.Object, 0, len(rendered))
	for _, o := range rendered {
		if o.GetKind() == "Secret" && o.GetName() == access.Secret {
			o.SetAnnotations(map[string]string{resourcesv1alpha1.AnnotationMode: resourcesv1alpha1.ModeIgnore})
		}
		out = append(out, o)
	}
	return out, nil
}
