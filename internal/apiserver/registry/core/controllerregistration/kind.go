// Package controllerregistration serves ControllerRegistrations.
package controllerregistration

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how ControllerRegistrations are served.
func Kind() *registry.Kind[*corev1beta1.ControllerRegistration] {
	return &registry.Kind[*corev1beta1.ControllerRegistration]{
		Resource: corev1beta1.Resource("controllerregistrations"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "controllerregistration",
		New:      func() *corev1beta1.ControllerRegistration { return &corev1beta1.ControllerRegistration{} },
		NewList:  func() runtime.Object { return &corev1beta1.ControllerRegistrationList{} },

		ShortNames: []string{"ctrlreg"},
		Categories: []string{"all"},

		Spec:          func(o *corev1beta1.ControllerRegistration) any { return &o.Spec },
		DeletionBumps: true,

		Validate:       corev1beta1.ValidateControllerRegistration,
		ValidateUpdate: corev1beta1.ValidateControllerRegistrationUpdate,
		Warnings: func(_ context.Context, r, old *corev1beta1.ControllerRegistration) []string {
			return corev1beta1.WarningsControllerRegistration(r, old)
		},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Resources", "Kinds and types that the extension serves."),
		},
		Row: func(r *corev1beta1.ControllerRegistration) []any {
			var resources []string
			for _, resource := range r.Spec.Resources {
				resources = append(resources, resource.Kind+"/"+resource.Type)
			}
			return []any{strings.Join(resources, ", ")}
		},
	}
}
