package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Distances returns the operator's distances from a region of a CloudProfile to the regions of Seeds. They are in the
// ConfigMap for the profile, the first by name if there are several; nil if there is none, or if it has no entry for
// the region.
func Distances(configMaps []corev1.ConfigMap, cloudProfile, region string) (map[string]int, error) {
	var first *corev1.ConfigMap
	for i := range configMaps {
		if cm := &configMaps[i]; isRegionConfig(cm) && meantFor(cm, cloudProfile) &&
			(first == nil || cmp.Less(cm.Name, first.Name)) {
			first = cm
		}
	}
	if first == nil {
		return nil, nil
	}
	data := first.Data[region]
	if data == "" {
		return nil, nil
	}
	distances := map[string]int{}
	if err := yaml.Unmarshal([]byte(data), &distances); err != nil {
		return nil, fmt.Errorf("read distances of region %q in ConfigMap %s/%s: want a map from region to whole number: %w",
			region, first.Namespace, first.Name, err)
	}
	return distances, nil
}

// isRegionConfig says whether an operator has put distances into the ConfigMap.
func isRegionConfig(cm *corev1.ConfigMap) bool {
	return cm.Namespace == corev1beta1.GardenNamespace &&
		cm.Labels[corev1beta1.LabelSchedulingPurpose] == corev1beta1.SchedulingPurposeRegionConfig
}

func meantFor(cm *corev1.ConfigMap, cloudProfile string) bool {
	profiles := strings.Split(cm.Annotations[corev1beta1.AnnotationSchedulingCloudProfiles], ",")
	return slices.ContainsFunc(profiles, func(p string) bool { return strings.TrimSpace(p) == cloudProfile })
}
