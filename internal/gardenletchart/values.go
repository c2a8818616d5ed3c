// Package gardenletchart renders the chart of a gardenlet for Gardenlets and ManagedSeeds, and translates what they say
// into its values.
package gardenletchart

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart"
)

// Key of the value with a kubeconfig of the garden: for a first certificate, or with one.
const (
	BootstrapKubeconfig = "bootstrapKubeconfig"
	GardenKubeconfig    = "gardenKubeconfig"
)

// Config writes a GardenletConfiguration, which is in the field with the path, over the values in into, for the Seed
// with the name. Objects are merged; everything else is replaced.
func Config(into map[string]any, raw *runtime.RawExtension, path, seed string) error {
	if raw != nil {
		given := map[string]any{}
		if err := json.Unmarshal(raw.Raw, &given); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		chart.MergeValues(into, given)
	}
	connection, _ := into["gardenClientConnection"].(map[string]any)
	for _, key := range []string{"kubeconfig", "kubeconfigSecret", "bootstrapKubeconfig"} {
		delete(connection, key) // The chart sets them.
	}
	delete(into, "apiVersion")
	delete(into, "kind")
	config, _ := into["seedConfig"].(map[string]any)
	if config == nil {
		return fmt.Errorf("%s.seedConfig: required value", path)
	}
	metadata, _ := config["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		config["metadata"] = metadata
	}
	metadata["name"] = seed
	return nil
}

// Deployment returns the values for the settings of a Deployment. image is used where they name none.
func Deployment(deployment *seedmanagementv1alpha1.GardenletDeployment, image string) (map[string]any, error) {
	out := map[string]any{"image": image}
	if deployment == nil {
		return out, nil
	}
	text, err := json.Marshal(deployment)
	if err != nil {
		return nil, fmt.Errorf("encode deployment: %w", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("decode deployment: %w", err)
	}
	delete(fields, "image")
	if replicas, ok := fields["replicaCount"]; ok {
		fields["replicas"] = replicas
		delete(fields, "replicaCount")
	}
	chart.MergeValues(out, fields)
	if i := deployment.Image; i != nil {
		out["image"] = imageOf(i, image)
		if i.PullPolicy != nil {
			out["imagePullPolicy"] = string(*i.PullPolicy)
		}
	}
	return out, nil
}

// imageOf returns the reference of an image. Its repository or tag are those of the other image where it has none.
func imageOf(i *seedmanagementv1alpha1.Image, other string) string {
	if i.Ref != nil {
		return *i.Ref
	}
	if i.Repository == nil && i.Tag == nil {
		return other
	}
	repository, _, _ := strings.Cut(other, "@") // The digest is that of another image.
	tag := ""
	if at := strings.LastIndex(repository, ":"); at > strings.LastIndex(repository, "/") {
		repository, tag = repository[:at], repository[at+1:]
	}
	if i.Repository != nil {
		repository = *i.Repository
	}
	if i.Tag != nil {
		tag = *i.Tag
	}
	return strings.TrimSuffix(repository+":"+tag, ":")
}
