package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	gardenNamespace         = "garden"
	labelPurpose            = "scheduling.gardener.cloud/purpose"
	purposeRegionConfig     = "region-config"
	annotationCloudProfiles = "scheduling.gardener.cloud/cloudprofiles"
)

// Distances returns the operator's distances from a region of a CloudProfile to the regions of seeds, from the first of
// the ConfigMaps that is meant for the profile; nil if there is none or it does not know the region.
func Distances(configMaps []corev1.ConfigMap, cloudProfile, region string) (map[string]int, error) {
	for _, cm := range configMaps {
		if cm.Labels[labelPurpose] != purposeRegionConfig {
			continue
		}
		profiles := strings.Split(cm.Annotations[annotationCloudProfiles], ",")
		if !slices.ContainsFunc(profiles, func(p string) bool { return strings.TrimSpace(p) == cloudProfile }) {
			continue
		}
		data, known := cm.Data[region]
		if !known {
			return nil, nil
		}
		distances := map[string]int{}
		if err := yaml.Unmarshal([]byte(data), &distances); err != nil {
			return nil, fmt.Errorf("read distances of region %q in ConfigMap %s/%s: want a map from region to whole number: %w", region, cm.Namespace, cm.Name, err)
		}
		return distances, nil
	}
	return nil, nil
}
