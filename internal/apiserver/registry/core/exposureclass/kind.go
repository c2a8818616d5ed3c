// Package exposureclass serves ExposureClasses.
package exposureclass

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how ExposureClasses are served.
func Kind() *registry.Kind[*corev1beta1.ExposureClass] {
	return &registry.Kind[*corev1beta1.ExposureClass]{
		Resource: corev1beta1.Resource("exposureclasses"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "exposureclass",
		New:      func() *corev1beta1.ExposureClass { return &corev1beta1.ExposureClass{} },
		NewList:  func() runtime.Object { return &corev1beta1.ExposureClassList{} },

		ShortNames: []string{"expclass", "expcls"},

		Validate:       corev1beta1.ValidateExposureClass,
		ValidateUpdate: corev1beta1.ValidateExposureClassUpdate,
		Warnings: func(_ context.Context, c, old *corev1beta1.ExposureClass) []string {
			return corev1beta1.WarningsExposureClass(c, old)
		},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Handler", "Gateway that serves the class."),
		},
		Row: func(c *corev1beta1.ExposureClass) []any { return []any{c.Handler} },
	}
}
