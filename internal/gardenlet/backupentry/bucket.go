package backupentry

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/backup"
)

// unusable says why nothing can be kept in a bucket; nil if it can. A bucket that works is not given up because it is
// being reconciled. Codes of its errors stay there: the owner of a Shoot cannot resolve them.
func unusable(bucket *corev1beta1.BackupBucket) *backup.Report {
	report := func(r backup.Report) *backup.Report { return &r }
	last, failure := bucket.Status.LastOperation, bucket.Status.LastError
	switch {
	case bucket.DeletionTimestamp != nil:
		return report(backup.Failed(fmt.Sprintf("BackupBucket %s is being deleted", bucket.Name)))
	case failure != nil:
		return report(backup.Failed(fmt.Sprintf("BackupBucket %s is not ready: %s", bucket.Name, failure.Description)))
	case last == nil:
		return report(backup.Pending(fmt.Sprintf("BackupBucket %s has not been created yet", bucket.Name)))
	case last.Type == corev1beta1.LastOperationTypeCreate && last.State != corev1beta1.LastOperationStateSucceeded:
		return report(backup.Pending(fmt.Sprintf("BackupBucket %s has not been created yet: %s", bucket.Name,
			last.Description)))
	case last.State == corev1beta1.LastOperationStateFailed, last.State == corev1beta1.LastOperationStateError:
		return report(backup.Failed(fmt.Sprintf("BackupBucket %s is not ready: %s", bucket.Name, last.Description)))
	}
	return nil
}

// becameUsable: an update of a bucket after which entries have something to do. They also look for other credentials
// then.
func becameUsable(old, now *corev1beta1.BackupBucket) bool {
	succeeded := func(b *corev1beta1.BackupBucket) bool {
		return b.Status.LastOperation != nil && b.Status.LastOperation.State == corev1beta1.LastOperationStateSucceeded
	}
	return succeeded(now) && (!succeeded(old) ||
		old.Status.LastOperation.LastUpdateTime != now.Status.LastOperation.LastUpdateTime)
}

// extensionEntry is the object for the provider's extension.
func extensionEntry(entry *corev1beta1.BackupEntry, bucket *corev1beta1.BackupBucket) *extensionsv1alpha1.BackupEntry {
	object := &extensionsv1alpha1.BackupEntry{Spec: extensionsv1alpha1.BackupEntrySpec{
		DefaultSpec:                extensionsv1alpha1.DefaultSpec{Type: bucket.Spec.Provider.Type},
		BackupBucketProviderStatus: bucket.Status.ProviderStatus,
		Region:                     bucket.Spec.Provider.Region,
		BucketName:                 bucket.Name,
		SecretRef: corev1.SecretReference{Namespace: corev1beta1.GardenNamespace,
			Name: backup.EntrySecretPrefix + entry.Name},
	}}
	object.Name = entry.Name
	return object
}
