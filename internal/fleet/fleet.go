// Package fleet reads the objects that commands decide about: Shoots, and the objects of the garden that their
// decisions depend on.
//
// FromManifests reads a Fleet from files, directories and standard input, with the rules of package manifest;
// FromGarden reads it from a live garden. Source holds the flags of a command that can do either. Options select the
// kinds that a command needs: errors in manifests of other kinds do not affect it.
package fleet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Fleet holds objects in the order in which they were read.
type Fleet struct {
	Seeds                   []corev1beta1.Seed
	CloudProfiles           []corev1beta1.CloudProfile
	NamespacedCloudProfiles []corev1beta1.NamespacedCloudProfile
	Projects                []corev1beta1.Project
	Shoots                  []corev1beta1.Shoot
	ConfigMaps              []corev1.ConfigMap // From a garden, only those with distances between regions.
}

// Kind is a kind of a Fleet.
type Kind string

// All kinds.
const (
	Seeds                   Kind = "Seed"
	CloudProfiles           Kind = "CloudProfile"
	NamespacedCloudProfiles Kind = "NamespacedCloudProfile"
	Projects                Kind = "Project"
	Shoots                  Kind = "Shoot"
	ConfigMaps              Kind = "ConfigMap"
)

// Options describe the needs of a command.
type Options struct {
	// Kinds lists the kinds to read; others are skipped.
	Kinds []Kind
	// Trim removes parts of Shoots that the command does not need, because fleets have tens of thousands. Nil keeps
	// everything.
	Trim func(*corev1beta1.Shoot)
}

func (o *Options) trim(shoot *corev1beta1.Shoot) {
	if o.Trim != nil {
		o.Trim(shoot)
	}
}

// Overlay returns the Fleet with the profiles of another one added; they replace profiles of the same name.
func (f *Fleet) Overlay(other *Fleet) *Fleet {
	merged := *f
	merged.CloudProfiles = replace(f.CloudProfiles, other.CloudProfiles, func(a, b *corev1beta1.CloudProfile) bool {
		return a.Name == b.Name
	})
	merged.NamespacedCloudProfiles = replace(f.NamespacedCloudProfiles, other.NamespacedCloudProfiles,
		func(a, b *corev1beta1.NamespacedCloudProfile) bool {
			return a.Namespace == b.Namespace && a.Name == b.Name
		})
	return &merged
}

func replace[T any](base, changed []T, same func(a, b *T) bool) []T {
	merged := slices.Clone(base)
	for i := range changed {
		if at := slices.IndexFunc(merged, func(b T) bool { return same(&b, &changed[i]) }); at >= 0 {
			merged[at] = changed[i]
		} else {
			merged = append(merged, changed[i])
		}
	}
	return merged
}
