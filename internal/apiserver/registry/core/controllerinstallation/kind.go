// Package controllerinstallation serves ControllerInstallations.
package controllerinstallation

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how ControllerInstallations are served.
func Kind() *registry.Kind[*corev1beta1.ControllerInstallation] {
	return &registry.Kind[*corev1beta1.ControllerInstallation]{
		Resource: corev1beta1.Resource("controllerinstallations"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "controllerinstallation",
		New:      func() *corev1beta1.ControllerInstallation { return &corev1beta1.ControllerInstallation{} },
		NewList:  func() runtime.Object { return &corev1beta1.ControllerInstallationList{} },

		ShortNames: []string{"ctrlinst"},
		Categories: []string{"all"},

		Spec:          func(o *corev1beta1.ControllerInstallation) any { return &o.Spec },
		CopyStatus:    func(to, from *corev1beta1.ControllerInstallation) { to.Status = from.Status },
		CopySpec:      func(to, from *corev1beta1.ControllerInstallation) { to.Spec = from.Spec },
		DeletionBumps: true,

		Validate:       corev1beta1.ValidateControllerInstallation,
		ValidateUpdate: corev1beta1.ValidateControllerInstallationUpdate,
		Warnings: func(_ context.Context, i, old *corev1beta1.ControllerInstallation) []string {
			return corev1beta1.WarningsControllerInstallation(i, old)
		},
		Fields: func(i *corev1beta1.ControllerInstallation) fields.Set {
			set := fields.Set{
				"spec.registrationRef.name": i.Spec.RegistrationRef.Name,
				"spec.seedRef.name":         "", "spec.shootRef.name": "", "spec.shootRef.namespace": "",
			}
			if ref := i.Spec.SeedRef; ref != nil {
				set["spec.seedRef.name"] = ref.Name
			}
			if ref := i.Spec.ShootRef; ref != nil {
				set["spec.shootRef.name"], set["spec.shootRef.namespace"] = ref.Name, ref.Namespace
			}
			return set
		},
		Indexed: []string{"spec.seedRef.name", "spec.registrationRef.name"},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Registration", "Extension that is installed."),
			registry.Column("Cluster", "Cluster in which it is installed."),
			registry.Column("Valid", "Status of the condition Valid."),
			registry.Column("Installed", "Status of the condition Installed."),
			registry.Column("Healthy", "Status of the condition Healthy."),
			registry.Column("Progressing", "Status of the condition Progressing."),
		},
		Row: func(i *corev1beta1.ControllerInstallation) []any {
			return []any{
				i.Spec.RegistrationRef.Name, cluster(i), condition(i, corev1beta1.ControllerInstallationValid),
				condition(i, corev1beta1.ControllerInstallationInstalled), condition(i, corev1beta1.ControllerInstallationHealthy),
				condition(i, corev1beta1.ControllerInstallationProgressing),
			}
		},
	}
}

func cluster(i *corev1beta1.ControllerInstallation) string {
	switch {
	case i.Spec.SeedRef != nil:
		return "Seed/" + i.Spec.SeedRef.Name
	case i.Spec.ShootRef != nil:
		return "Shoot/" + i.Spec.ShootRef.Namespace + "/" + i.Spec.ShootRef.Name
	default:
		return registry.None
	}
}

func condition(i *corev1beta1.ControllerInstallation, kind corev1beta1.ConditionType) string {
	for _, c := range i.Status.Conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return registry.Unknown
}
