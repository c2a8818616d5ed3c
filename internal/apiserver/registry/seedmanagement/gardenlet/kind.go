// Package gardenlet serves Gardenlets.
package gardenlet

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how Gardenlets are served.
func Kind() *registry.Kind[*seedmanagementv1alpha1.Gardenlet] {
	return &registry.Kind[*seedmanagementv1alpha1.Gardenlet]{
		Resource: seedmanagementv1alpha1.Resource("gardenlets"),
		Version:  seedmanagementv1alpha1.SchemeGroupVersion.Version,
		Singular: "gardenlet",
		New:      func() *seedmanagementv1alpha1.Gardenlet { return &seedmanagementv1alpha1.Gardenlet{} },
		NewList:  func() runtime.Object { return &seedmanagementv1alpha1.GardenletList{} },

		Namespaced: true,
		ShortNames: []string{"gl"},

		Spec:          func(o *seedmanagementv1alpha1.Gardenlet) any { return &o.Spec },
		CopyStatus:    func(to, from *seedmanagementv1alpha1.Gardenlet) { to.Status = from.Status },
		CopySpec:      func(to, from *seedmanagementv1alpha1.Gardenlet) { to.Spec = from.Spec },
		DeletionBumps: true,

		PrepareForUpdate: func(_ context.Context, g, old *seedmanagementv1alpha1.Gardenlet) bool {
			before := old.Annotations[corev1beta1.AnnotationOperation]
			if before == corev1beta1.OperationForceRedeploy && g.Annotations[corev1beta1.AnnotationOperation] == "" {
				return true // The gardenlet reports for itself again.
			}
			if before != "" || g.Annotations[corev1beta1.AnnotationOperation] != corev1beta1.OperationReconcile {
				return false
			}
			delete(g.Annotations, corev1beta1.AnnotationOperation)
			return true
		},

		Warnings: func(_ context.Context, g, old *seedmanagementv1alpha1.Gardenlet) []string {
			return seedmanagementv1alpha1.WarningsGardenlet(g, old)
		},
		Validate:       seedmanagementv1alpha1.ValidateGardenlet,
		ValidateUpdate: seedmanagementv1alpha1.ValidateGardenletUpdate,

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Reconciled", "Whether the gardenlet is as the spec says."),
			registry.Column("Chart", "Where the gardenlet's chart is."),
		},
		Row: func(g *seedmanagementv1alpha1.Gardenlet) []any {
			return []any{reconciled(g), g.Spec.Deployment.Helm.OCIRepository.Reference()}
		},
	}
}

func reconciled(g *seedmanagementv1alpha1.Gardenlet) string {
	c := corev1beta1.FindCondition(g.Status.Conditions, seedmanagementv1alpha1.GardenletReconciled)
	if c == nil {
		return string(corev1beta1.ConditionUnknown)
	}
	return string(c.Status)
}
