// Package backupentry serves BackupEntries.
package backupentry

import (
	"context"

	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how BackupEntries are served.
func Kind() *registry.Kind[*corev1beta1.BackupEntry] {
	return &registry.Kind[*corev1beta1.BackupEntry]{
		Resource: corev1beta1.Resource("backupentries"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "backupentry",
		New:      func() *corev1beta1.BackupEntry { return &corev1beta1.BackupEntry{} },
		NewList:  func() runtime.Object { return &corev1beta1.BackupEntryList{} },

		Namespaced: true,
		ShortNames: []string{"bec"},
		Categories: []string{"all"},

		Spec:          func(o *corev1beta1.BackupEntry) any { return &o.Spec },
		CopyStatus:    func(to, from *corev1beta1.BackupEntry) { to.Status = from.Status },
		CopySpec:      func(to, from *corev1beta1.BackupEntry) { to.Spec = from.Spec },
		DeletionBumps: true,

		PrepareForCreate: func(_ context.Context, e *corev1beta1.BackupEntry) {
			e.Labels = registry.SeedLabels(e.Labels, e.Spec.SeedName, e.Status.SeedName)
		},
		PrepareForUpdate: func(_ context.Context, e, old *corev1beta1.BackupEntry) bool {
			e.Labels = registry.SeedLabels(e.Labels, e.Spec.SeedName, e.Status.SeedName)
			return takeOperation(e, old) || forceDeletion(e) && !forceDeletion(old)
		},
		PrepareForStatusUpdate: func(_ context.Context, e, _ *corev1beta1.BackupEntry) bool {
			e.Labels = registry.SeedLabels(e.Labels, e.Spec.SeedName, e.Status.SeedName)
			return false
		},

		Validate:       corev1beta1.ValidateBackupEntry,
		ValidateUpdate: corev1beta1.ValidateBackupEntryUpdate,
		Fields: func(e *corev1beta1.BackupEntry) fields.Set {
			set := fields.Set{
				"spec.bucketName": e.Spec.BucketName,
				"spec.seedName":   "", "spec.shootRef.name": "", "spec.shootRef.namespace": "",
			}
			if e.Spec.SeedName != nil {
				set["spec.seedName"] = *e.Spec.SeedName
			}
			if ref := e.Spec.ShootRef; ref != nil {
				set["spec.shootRef.name"], set["spec.shootRef.namespace"] = ref.Name, ref.Namespace
			}
			return set
		},
		Indexed: []string{"spec.seedName", "spec.bucketName"},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Bucket", "Bucket that holds the backups."),
			registry.Column("Seed", "Seed that uses the entry."),
			registry.Column("Operation", "State of the last operation."),
			registry.Column("Progress", "Progress of the last operation."),
		},
		Row: func(e *corev1beta1.BackupEntry) []any {
			state, progress := registry.Operation(e.Status.LastOperation)
			return []any{e.Spec.BucketName, registry.Or(e.Spec.SeedName, registry.None), state, progress}
		},
	}
}

// takeOperation reports whether a new operation was requested, and removes the annotation. The annotation of a
// restoration stays until the restoration is done, and counts once.
func takeOperation(e, old *corev1beta1.BackupEntry) bool {
	operation, requested := e.Annotations[corev1beta1.AnnotationOperation]
	switch {
	case !requested:
		return false
	case operation == corev1beta1.OperationRestore:
		return old.Annotations[corev1beta1.AnnotationOperation] != operation
	default:
		delete(e.Annotations, corev1beta1.AnnotationOperation)
		return true
	}
}

func forceDeletion(e *corev1beta1.BackupEntry) bool {
	yes, err := strconv.ParseBool(e.Annotations[corev1beta1.AnnotationBackupEntryForceDeletion])
	return err == nil && yes
}
