package v1

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// helmProviderConfig is the providerConfig of a v1beta1 object of type helm. Its members keep their meaning in v1.
type helmProviderConfig struct {
	Chart         []byte                `json:"chart,omitempty"`
	Values        *runtime.RawExtension `json:"values,omitempty"`
	OCIRepository *OCIRepository        `json:"ociRepository,omitempty"`
}

// annotationResources keeps, in v1beta1, the resources for which that version has no field, as JSON text.
const annotationResources = "hortus.dev/controllerdeployment-resources"

// ConvertTo writes the v1beta1 form of the object. The result shares memory with it.
func (d *ControllerDeployment) ConvertTo(out *corev1beta1.ControllerDeployment) error {
	out.ObjectMeta = d.ObjectMeta
	if len(d.Resources) > 0 {
		resources, err := json.Marshal(d.Resources)
		if err != nil {
			return fmt.Errorf("write resources of ControllerDeployment %q: %w", d.Name, err)
		}
		out.Annotations = with(out.Annotations, annotationResources, string(resources))
	}
	out.InjectGardenKubeconfig = d.InjectGardenKubeconfig
	out.Type, out.ProviderConfig = "", runtime.RawExtension{}
	switch {
	case d.Helm != nil:
		config, err := json.Marshal(helmProviderConfig{
			Chart: d.Helm.RawChart, Values: d.Helm.Values, OCIRepository: d.Helm.OCIRepository,
		})
		if err != nil {
			return fmt.Errorf("write Helm chart of ControllerDeployment %q: %w", d.Name, err)
		}
		out.Type, out.ProviderConfig = corev1beta1.ControllerDeploymentTypeHelm, runtime.RawExtension{Raw: config}
	default:
		out.Type = d.Annotations[AnnotationMigrationType]
		if config := d.Annotations[AnnotationMigrationProviderConfig]; config != "" {
			out.ProviderConfig = runtime.RawExtension{Raw: []byte(config)}
		}
		out.Annotations = without(out.Annotations, AnnotationMigrationType, AnnotationMigrationProviderConfig)
	}
	return nil
}

// ConvertFrom reads the v1beta1 form of the object. The result shares memory with it.
func (d *ControllerDeployment) ConvertFrom(in *corev1beta1.ControllerDeployment) error {
	d.ObjectMeta = in.ObjectMeta
	d.InjectGardenKubeconfig = in.InjectGardenKubeconfig
	d.Helm, d.Resources = nil, nil
	if text := in.Annotations[annotationResources]; text != "" {
		if err := json.Unmarshal([]byte(text), &d.Resources); err != nil {
			return fmt.Errorf("read annotation %s of ControllerDeployment %q: %w", annotationResources, in.Name, err)
		}
		d.Annotations = without(d.Annotations, annotationResources)
	}
	if in.Type == corev1beta1.ControllerDeploymentTypeHelm {
		var config helmProviderConfig
		if len(in.ProviderConfig.Raw) > 0 {
			if err := json.Unmarshal(in.ProviderConfig.Raw, &config); err != nil {
				return fmt.Errorf("read Helm chart of ControllerDeployment %q: %w", in.Name, err)
			}
		}
		d.Helm = &HelmControllerDeployment{RawChart: config.Chart, Values: config.Values, OCIRepository: config.OCIRepository}
		return nil
	}
	if in.Type == "" && len(in.ProviderConfig.Raw) == 0 {
		return nil
	}
	d.Annotations = with(d.Annotations, AnnotationMigrationType, in.Type)
	if len(in.ProviderConfig.Raw) > 0 {
		d.Annotations[AnnotationMigrationProviderConfig] = string(in.ProviderConfig.Raw)
	}
	return nil
}

// with returns a copy of annotations with one more.
func with(annotations map[string]string, key, value string) map[string]string {
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	return annotations
}

// without returns a copy of annotations without some, and nothing instead of an empty one.
func without(annotations map[string]string, keys ...string) map[string]string {
	annotations = maps.Clone(annotations)
	for _, key := range keys {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}
