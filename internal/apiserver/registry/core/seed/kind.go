// Package seed serves Seeds.
package seed

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how Seeds are served.
func Kind() *registry.Kind[*corev1beta1.Seed] {
	return &registry.Kind[*corev1beta1.Seed]{
		Resource: corev1beta1.Resource("seeds"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "seed",
		New:      func() *corev1beta1.Seed { return &corev1beta1.Seed{} },
		NewList:  func() runtime.Object { return &corev1beta1.SeedList{} },

		Unconditional: true,

		Spec:          func(o *corev1beta1.Seed) any { return &o.Spec },
		CopyStatus:    func(to, from *corev1beta1.Seed) { to.Status = from.Status },
		CopySpec:      func(to, from *corev1beta1.Seed) { to.Spec = from.Spec },
		DeletionBumps: true,

		PrepareForCreate: func(_ context.Context, s *corev1beta1.Seed) {
			syncReferences(s, nil)
			setLabels(s)
		},
		PrepareForUpdate: func(_ context.Context, s, old *corev1beta1.Seed) bool {
			syncReferences(s, old)
			setLabels(s)
			return takeOperation(s, old)
		},

		Validate:             corev1beta1.ValidateSeed,
		ValidateUpdate:       corev1beta1.ValidateSeedUpdate,
		ValidateStatusUpdate: corev1beta1.ValidateSeedStatusUpdate,

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Status", "Whether the seed can host control planes."),
			registry.Column("Last Operation", "Type, state and progress of the last operation."),
			registry.Column("Provider", "Type of the infrastructure."),
			registry.Column("Region", "Region of the infrastructure."),
			registry.AgeColumn(),
			registry.Column("Version", "Version of the gardenlet."),
			registry.Column("K8S Version", "Kubernetes version of the seed cluster."),
		},
		Row: func(s *corev1beta1.Seed) []any {
			version := registry.Unknown
			if s.Status.Gardener != nil {
				version = s.Status.Gardener.Version
			}
			operation := registry.Pending
			if op := s.Status.LastOperation; op != nil {
				operation = fmt.Sprintf("%s %s (%d%%)", op.Type, op.State, op.Progress)
			}
			return []any{
				readiness(s), operation, s.Spec.Provider.Type, s.Spec.Provider.Region, registry.Age(s), version,
				registry.Or(s.Status.KubernetesVersion, registry.Unknown),
			}
		},
	}
}

func syncReferences(s, old *corev1beta1.Seed) {
	if backup := s.Spec.Backup; backup != nil {
		before := &corev1beta1.Backup{}
		if old != nil && old.Spec.Backup != nil {
			before = old.Spec.Backup
		}
		registry.SyncSecretRef(&backup.SecretRef, &backup.CredentialsRef, before.SecretRef, before.CredentialsRef)
	}
	if provider := s.Spec.DNS.Provider; provider != nil {
		before := &corev1beta1.SeedDNSProvider{}
		if old != nil && old.Spec.DNS.Provider != nil {
			before = old.Spec.DNS.Provider
		}
		registry.SyncSecretRef(&provider.SecretRef, &provider.CredentialsRef, before.SecretRef, before.CredentialsRef)
	}
}

func setLabels(s *corev1beta1.Seed) {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1beta1.LabelSeedProvider] = s.Spec.Provider.Type
	labels[corev1beta1.LabelSeedRegion] = s.Spec.Provider.Region
	s.Labels = labels
}

// takeOperation reports whether a new operation was requested, and removes the annotation if incrementing the
// generation is all that the operation needs.
func takeOperation(s, old *corev1beta1.Seed) bool {
	operation, pending := s.Annotations[corev1beta1.AnnotationOperation], old.Annotations[corev1beta1.AnnotationOperation]
	if operation == pending || pending != "" { // Validation rejects replacing a pending one.
		return false
	}
	switch operation {
	case corev1beta1.OperationReconcile:
		delete(s.Annotations, corev1beta1.AnnotationOperation)
		return true
	case corev1beta1.OperationRenewGardenAccessSecrets, corev1beta1.OperationRenewKubeconfig:
		return true
	}
	return false
}

// readiness summarizes the conditions.
func readiness(s *corev1beta1.Seed) string {
	status := map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{}
	for _, c := range s.Status.Conditions {
		status[c.Type] = c.Status
	}
	backup, hasBackup := status[corev1beta1.SeedBackupBucketsReady]
	extensions, components := status[corev1beta1.SeedExtensionsReady], status[corev1beta1.SeedSystemComponentsHealthy]
	bad := func(s corev1beta1.ConditionStatus) bool {
		return s == corev1beta1.ConditionFalse || s == corev1beta1.ConditionUnknown
	}
	switch gardenlet := status[corev1beta1.SeedGardenletReady]; {
	case gardenlet == corev1beta1.ConditionUnknown:
		return "Unknown"
	case gardenlet != corev1beta1.ConditionTrue,
		hasBackup && backup != corev1beta1.ConditionTrue,
		extensions == "" || bad(extensions),
		bad(components):
		return "NotReady"
	default:
		return "Ready"
	}
}
