// Package namespacedcloudprofile serves NamespacedCloudProfiles.
package namespacedcloudprofile

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how NamespacedCloudProfiles are served.
func Kind(features corev1beta1.Features, clock clock.PassiveClock) *registry.Kind[*corev1beta1.NamespacedCloudProfile] {
	return &registry.Kind[*corev1beta1.NamespacedCloudProfile]{
		Resource: corev1beta1.Resource("namespacedcloudprofiles"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "namespacedcloudprofile",
		New:      func() *corev1beta1.NamespacedCloudProfile { return &corev1beta1.NamespacedCloudProfile{} },
		NewList:  func() runtime.Object { return &corev1beta1.NamespacedCloudProfileList{} },

		Namespaced:    true,
		ShortNames:    []string{"nsprofile", "nscpfl"},
		Unconditional: true,

		Spec:          func(o *corev1beta1.NamespacedCloudProfile) any { return &o.Spec },
		CopyStatus:    func(to, from *corev1beta1.NamespacedCloudProfile) { to.Status = from.Status },
		CopySpec:      func(to, from *corev1beta1.NamespacedCloudProfile) { to.Spec = from.Spec },
		DeletionBumps: true,

		Validate: func(p *corev1beta1.NamespacedCloudProfile) field.ErrorList {
			return corev1beta1.CloudProfileValidation{Features: features, Now: clock.Now()}.CreateNamespaced(p)
		},
		ValidateUpdate: func(p, old *corev1beta1.NamespacedCloudProfile) field.ErrorList {
			return corev1beta1.CloudProfileValidation{Features: features, Now: clock.Now()}.UpdateNamespaced(p, old)
		},

		Warnings: func(_ context.Context, p, old *corev1beta1.NamespacedCloudProfile) []string {
			return corev1beta1.WarningsNamespacedCloudProfile(p, old)
		},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Parent Name", "Name of the profile that is changed."),
			registry.Column("Parent Kind", "Kind of the profile that is changed."),
		},
		Row: func(p *corev1beta1.NamespacedCloudProfile) []any {
			return []any{p.Spec.Parent.Name, p.Spec.Parent.Kind}
		},
	}
}
