// Package controllerdeployment serves ControllerDeployments.
package controllerdeployment

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	corev1 "hortus.dev/hortus/api/core/v1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how ControllerDeployments are served.
func Kind() *registry.Kind[*corev1.ControllerDeployment] {
	return &registry.Kind[*corev1.ControllerDeployment]{
		Resource: corev1.Resource("controllerdeployments"),
		Version:  corev1.SchemeGroupVersion.Version,
		Singular: "controllerdeployment",
		New:      func() *corev1.ControllerDeployment { return &corev1.ControllerDeployment{} },
		NewList:  func() runtime.Object { return &corev1.ControllerDeploymentList{} },

		ShortNames: []string{"ctrldeploy"},
		Categories: []string{"all"},

		// The spec consists of helm, resources and the annotations that stand for other types.
		Spec: func(d *corev1.ControllerDeployment) any {
			return []any{d.Helm, d.InjectGardenKubeconfig, d.Resources,
				d.Annotations[corev1.AnnotationMigrationType], d.Annotations[corev1.AnnotationMigrationProviderConfig]}
		},
		DeletionBumps: true,

		Validate:       corev1.ValidateControllerDeployment,
		ValidateUpdate: corev1.ValidateControllerDeploymentUpdate,
		Warnings: func(_ context.Context, d, old *corev1.ControllerDeployment) []string {
			return corev1.WarningsControllerDeployment(d, old)
		},
	}
}
