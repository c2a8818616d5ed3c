// Package backupbucket serves BackupBuckets.
package backupbucket

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how BackupBuckets are served.
func Kind() *registry.Kind[*corev1beta1.BackupBucket] {
	return &registry.Kind[*corev1beta1.BackupBucket]{
		Resource: corev1beta1.Resource("backupbuckets"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "backupbucket",
		New:      func() *corev1beta1.BackupBucket { return &corev1beta1.BackupBucket{} },
		NewList:  func() runtime.Object { return &corev1beta1.BackupBucketList{} },

		ShortNames: []string{"bbc"},
		Categories: []string{"all"},

		Spec:          func(o *corev1beta1.BackupBucket) any { return &o.Spec },
		CopyStatus:    func(to, from *corev1beta1.BackupBucket) { to.Status = from.Status },
		CopySpec:      func(to, from *corev1beta1.BackupBucket) { to.Spec = from.Spec },
		DeletionBumps: true,

		PrepareForCreate: func(_ context.Context, b *corev1beta1.BackupBucket) {
			registry.SyncSecretRef(&b.Spec.SecretRef, &b.Spec.CredentialsRef, nil, nil)
			b.Labels = registry.SeedLabels(b.Labels, b.Spec.SeedName)
		},
		PrepareForUpdate: func(_ context.Context, b, old *corev1beta1.BackupBucket) bool {
			registry.SyncSecretRef(&b.Spec.SecretRef, &b.Spec.CredentialsRef, old.Spec.SecretRef, old.Spec.CredentialsRef)
			b.Labels = registry.SeedLabels(b.Labels, b.Spec.SeedName)
			return registry.TakeOperation(b, corev1beta1.OperationReconcile)
		},

		Validate:       corev1beta1.ValidateBackupBucket,
		ValidateUpdate: corev1beta1.ValidateBackupBucketUpdate,
		Fields: func(b *corev1beta1.BackupBucket) fields.Set {
			set := fields.Set{"spec.seedName": "", "spec.shootRef.name": "", "spec.shootRef.namespace": ""}
			if b.Spec.SeedName != nil {
				set["spec.seedName"] = *b.Spec.SeedName
			}
			if ref := b.Spec.ShootRef; ref != nil {
				set["spec.shootRef.name"], set["spec.shootRef.namespace"] = ref.Name, ref.Namespace
			}
			return set
		},
		Indexed: []string{"spec.seedName"},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Provider", "Type of the object store."),
			registry.Column("Seed", "Seed that uses the bucket."),
			registry.Column("Operation", "State of the last operation."),
			registry.Column("Progress", "Progress of the last operation."),
		},
		Row: func(b *corev1beta1.BackupBucket) []any {
			state, progress := registry.Operation(b.Status.LastOperation)
			return []any{b.Spec.Provider.Type, registry.Or(b.Spec.SeedName, registry.None), state, progress}
		},
	}
}
