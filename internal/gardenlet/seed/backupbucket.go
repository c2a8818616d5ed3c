package seed

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/backupbucket"
	"hortus.dev/hortus/internal/kube"
)

// ensureBackupBucket makes the BackupBucket of the Seed, which another controller of the gardenlet turns into a
// bucket.
func (r *Reconciler) ensureBackupBucket(ctx context.Context, seed *corev1beta1.Seed) error {
	if seed.Spec.Backup == nil {
		return nil
	}
	bucket := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: string(seed.UID)}}
	found, err := kube.Exists(ctx, r.Garden, bucket)
	if err != nil {
		return err
	}
	before := bucket.DeepCopy()
	desireBackupBucket(bucket, seed)
	if !found {
		log.FromContext(ctx).Info("Creating BackupBucket", "BackupBucket", bucket.Name)
		if err := r.Garden.Create(ctx, bucket); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("create BackupBucket %q: %w", bucket.Name, err)
		}
		return nil
	}
	if bucket.DeletionTimestamp != nil || equality.Semantic.DeepEqual(before, bucket) {
		return nil
	}
	log.FromContext(ctx).Info("Updating BackupBucket", "BackupBucket", bucket.Name)
	if err := r.Garden.Patch(ctx, bucket, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("update BackupBucket %q: %w", bucket.Name, err)
	}
	return nil
}

// desireBackupBucket sets the fields of the bucket to those of the Seed. Provider and region never change.
func desireBackupBucket(bucket *corev1beta1.BackupBucket, seed *corev1beta1.Seed) {
	backup := seed.Spec.Backup
	if bucket.Spec.Provider.Type == "" {
		bucket.Spec.Provider = corev1beta1.BackupBucketProvider{Type: backup.Provider, Region: seed.Spec.Provider.Region}
		if region := ptr.Deref(backup.Region, ""); region != "" {
			bucket.Spec.Provider.Region = region
		}
	}
	bucket.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Seed", Name: seed.Name, UID: seed.UID,
		Controller: ptr.To(true),
	}}
	bucket.Spec.SeedName = ptr.To(seed.Name)
	bucket.Spec.ProviderConfig = backup.ProviderConfig
	bucket.Spec.CredentialsRef, bucket.Spec.SecretRef = backup.CredentialsRef, backup.SecretRef
}

// deleteBackupBucket deletes the BackupBucket of the Seed once nothing uses it. It returns what has to happen before
// the bucket is gone, "" when it is.
func (r *Reconciler) deleteBackupBucket(ctx context.Context, seed *corev1beta1.Seed) (string, error) {
	bucket := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: string(seed.UID)}}
	found, err := kube.Exists(ctx, r.Garden, bucket)
	if err != nil || !found {
		return "", err
	}
	if bucket.DeletionTimestamp == nil {
		entries := &corev1beta1.BackupEntryList{}
		if err := r.Garden.List(ctx, entries,
			client.MatchingLabels{corev1beta1.LabelPrefixSeedName + seed.Name: "true"}); err != nil {
			return "", fmt.Errorf("list BackupEntries of the Seed: %w", err)
		}
		if users := backupbucket.InUseBy(bucket.Name, entries.Items); users != "" {
			return users, nil
		}
		log.FromContext(ctx).Info("Deleting BackupBucket", "BackupBucket", bucket.Name)
		err := r.Garden.Delete(ctx, bucket)
		if apierrors.IsForbidden(err) {
			return err.Error(), nil // An entry of another seed, which this gardenlet may not read, uses it.
		}
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("delete BackupBucket %q: %w", bucket.Name, err)
		}
	}
	if op := bucket.Status.LastOperation; op != nil && op.Type == corev1beta1.LastOperationTypeDelete {
		return op.Description, nil
	}
	return fmt.Sprintf("BackupBucket %s is being deleted", bucket.Name), nil
}
