// Package shootstate serves ShootStates.
package shootstate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how ShootStates are served.
func Kind() *registry.Kind[*corev1beta1.ShootState] {
	return &registry.Kind[*corev1beta1.ShootState]{
		Resource: corev1beta1.Resource("shootstates"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "shootstate",
		New:      func() *corev1beta1.ShootState { return &corev1beta1.ShootState{} },
		NewList:  func() runtime.Object { return &corev1beta1.ShootStateList{} },

		Namespaced: true,
		Categories: []string{"all"},

		Spec:          func(o *corev1beta1.ShootState) any { return &o.Spec },
		DeletionBumps: true,

		Validate: corev1beta1.ValidateShootState,

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Gardener Data", "Number of entries that the gardenlet keeps."),
			registry.Column("Extension States", "Number of extension objects with state."),
		},
		Row: func(s *corev1beta1.ShootState) []any {
			return []any{len(s.Spec.Gardener), len(s.Spec.Extensions)}
		},
	}
}
