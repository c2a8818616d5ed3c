// Package cloudprofile serves CloudProfiles.
package cloudprofile

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how CloudProfiles are served.
func Kind(features corev1beta1.Features, clock clock.PassiveClock) *registry.Kind[*corev1beta1.CloudProfile] {
	return &registry.Kind[*corev1beta1.CloudProfile]{
		Resource: corev1beta1.Resource("cloudprofiles"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "cloudprofile",
		New:      func() *corev1beta1.CloudProfile { return &corev1beta1.CloudProfile{} },
		NewList:  func() runtime.Object { return &corev1beta1.CloudProfileList{} },

		ShortNames:    []string{"cprofile", "cpfl"},
		Unconditional: true,

		CopyStatus: func(to, from *corev1beta1.CloudProfile) { to.Status = from.Status },
		CopySpec:   func(to, from *corev1beta1.CloudProfile) { to.Spec = from.Spec },

		Validate: func(p *corev1beta1.CloudProfile) field.ErrorList {
			return corev1beta1.CloudProfileValidation{Features: features, Now: clock.Now()}.Create(p)
		},
		ValidateUpdate: func(p, old *corev1beta1.CloudProfile) field.ErrorList {
			return corev1beta1.CloudProfileValidation{Features: features, Now: clock.Now()}.Update(p, old)
		},

		Warnings: func(_ context.Context, p, old *corev1beta1.CloudProfile) []string {
			return corev1beta1.WarningsCloudProfile(p, old)
		},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Provider", "Type of the infrastructure."),
		},
		Row: func(p *corev1beta1.CloudProfile) []any { return []any{p.Spec.Type} },
	}
}
