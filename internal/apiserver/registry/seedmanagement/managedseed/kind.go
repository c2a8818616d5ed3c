// Package managedseed serves ManagedSeeds.
package managedseed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how ManagedSeeds are served.
func Kind() *registry.Kind[*seedmanagementv1alpha1.ManagedSeed] {
	return &registry.Kind[*seedmanagementv1alpha1.ManagedSeed]{
		Resource: seedmanagementv1alpha1.Resource("managedseeds"),
		Version:  seedmanagementv1alpha1.SchemeGroupVersion.Version,
		Singular: "managedseed",
		New:      func() *seedmanagementv1alpha1.ManagedSeed { return &seedmanagementv1alpha1.ManagedSeed{} },
		NewList:  func() runtime.Object { return &seedmanagementv1alpha1.ManagedSeedList{} },

		Namespaced: true,
		ShortNames: []string{"ms"},

		Spec:          func(o *seedmanagementv1alpha1.ManagedSeed) any { return &o.Spec },
		CopyStatus:    func(to, from *seedmanagementv1alpha1.ManagedSeed) { to.Status = from.Status },
		CopySpec:      func(to, from *seedmanagementv1alpha1.ManagedSeed) { to.Spec = from.Spec },
		DeletionBumps: true,

		PrepareForUpdate: func(_ context.Context, m, old *seedmanagementv1alpha1.ManagedSeed) bool {
			if old.Annotations[corev1beta1.AnnotationOperation] != "" {
				return false // Validation rejects replacing a pending one.
			}
			switch m.Annotations[corev1beta1.AnnotationOperation] {
			case corev1beta1.OperationReconcile:
				delete(m.Annotations, corev1beta1.AnnotationOperation)
				return true
			case corev1beta1.OperationRenewKubeconfig:
				return true
			}
			return false
		},

		Warnings: func(_ context.Context, m, old *seedmanagementv1alpha1.ManagedSeed) []string {
			return seedmanagementv1alpha1.WarningsManagedSeed(m, old)
		},
		Validate:       seedmanagementv1alpha1.ValidateManagedSeed,
		ValidateUpdate: seedmanagementv1alpha1.ValidateManagedSeedUpdate,
		Fields: func(m *seedmanagementv1alpha1.ManagedSeed) fields.Set {
			return fields.Set{"spec.shoot.name": shootName(m)}
		},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Status", "Whether the Seed has registered."),
			registry.Column("Shoot", "Shoot that becomes a Seed."),
		},
		Row: func(m *seedmanagementv1alpha1.ManagedSeed) []any { return []any{registered(m), shootName(m)} },
	}
}

func shootName(m *seedmanagementv1alpha1.ManagedSeed) string {
	if m.Spec.Shoot == nil {
		return ""
	}
	return m.Spec.Shoot.Name
}

func registered(m *seedmanagementv1alpha1.ManagedSeed) string {
	for _, c := range m.Status.Conditions {
		if c.Type == seedmanagementv1alpha1.SeedRegistered {
			switch c.Status {
			case corev1beta1.ConditionTrue:
				return "Registered"
			case corev1beta1.ConditionFalse:
				return "NotRegistered"
			}
		}
	}
	return "Unknown"
}
