package cloudprofile

import (
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Merge returns the spec of a CloudProfile with the changes of a NamespacedCloudProfile: expiration dates of existing
// versions are overridden; images, image versions and types are added; limits are replaced; CA bundles are joined.
// Kubernetes versions are never added: a version that the parent no longer has is dropped. Neither argument is changed;
// the result shares memory with both and must not be changed.
func Merge(
	parent *corev1beta1.CloudProfileSpec, child *corev1beta1.NamespacedCloudProfileSpec,
) corev1beta1.CloudProfileSpec {
	merged := *parent
	if child.Kubernetes != nil {
		merged.Kubernetes.Versions = mergeList(parent.Kubernetes.Versions, child.Kubernetes.Versions,
			func(v *corev1beta1.ExpirableVersion) string { return v.Version },
			overrideDate)[:len(parent.Kubernetes.Versions)]
	}
	merged.MachineImages = mergeList(parent.MachineImages, child.MachineImages,
		func(i *corev1beta1.MachineImage) string { return i.Name },
		func(into, from *corev1beta1.MachineImage) {
			into.Versions = mergeList(into.Versions, from.Versions,
				func(v *corev1beta1.MachineImageVersion) string { return v.Version },
				func(into, from *corev1beta1.MachineImageVersion) {
					overrideDate(&into.ExpirableVersion, &from.ExpirableVersion)
				})
		})
	merged.MachineTypes = slices.Concat(parent.MachineTypes, child.MachineTypes)
	merged.VolumeTypes = slices.Concat(parent.VolumeTypes, child.VolumeTypes)
	if child.Limits != nil {
		merged.Limits = child.Limits
	}
	if child.CABundle != nil {
		bundle := *child.CABundle
		if parent.CABundle != nil {
			bundle = strings.TrimSuffix(*parent.CABundle, "\n") + "\n" + bundle
		}
		merged.CABundle = &bundle
	}
	return merged
}

// overrideDate sets the expiration date of into if from has one. In a lifecycle that is the start time of the stage
// expired.
func overrideDate(into, from *corev1beta1.ExpirableVersion) {
	if from.ExpirationDate == nil {
		return
	}
	if len(into.Lifecycle) == 0 {
		into.ExpirationDate = from.ExpirationDate
		return
	}
	stages := slices.Clone(into.Lifecycle)
	if last := len(stages) - 1; stages[last].Classification == corev1beta1.ClassificationExpired {
		stages = stages[:last]
	}
	into.Lifecycle = append(stages, corev1beta1.LifecycleStage{
		Classification: corev1beta1.ClassificationExpired,
		StartTime:      from.ExpirationDate,
	})
}

// mergeList returns base with overrides applied to entries with the same key; other overrides are appended.
func mergeList[T any](base, overrides []T, key func(*T) string, apply func(into, from *T)) []T {
	if len(overrides) == 0 {
		return base
	}
	merged := slices.Clone(base)
	for i := range overrides {
		at := slices.IndexFunc(merged, func(t T) bool { return key(&t) == key(&overrides[i]) })
		if at < 0 {
			merged = append(merged, overrides[i])
			continue
		}
		apply(&merged[at], &overrides[i])
	}
	return merged
}
