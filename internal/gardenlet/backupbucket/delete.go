package backupbucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/backup"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// remove deletes the bucket with all backups in it, in the reverse order of its creation. A nil outcome means that it
// is gone.
func (r *Reconciler) remove(ctx context.Context, bucket *corev1beta1.BackupBucket) (*outcome, error) {
	if !controllerutil.ContainsFinalizer(bucket, corev1beta1.FinalizerName) {
		return nil, nil
	}
	entries := &corev1beta1.BackupEntryList{}
	if err := r.Garden.List(ctx, entries,
		client.MatchingLabels{corev1beta1.LabelPrefixSeedName + r.SeedName: "true"}); err != nil {
		return nil, fmt.Errorf("list BackupEntries of the seed: %w", err)
	}
	if users := InUseBy(bucket.Name, entries.Items); users != "" {
		return &outcome{report: backup.Pending(users)}, nil
	}
	progress, err := r.deleteObject(ctx, bucket)
	if err != nil {
		return nil, err
	}
	if progress.State != extensionobject.Done {
		return &outcome{backup.FromExtension(progress), progress.RetryAt}, nil
	}
	if err := r.removeGenerated(ctx, bucket); err != nil {
		return nil, err
	}
	if _, err := backup.DeleteSecret(ctx, r.Seed, backup.BucketSecretPrefix+bucket.Name); err != nil {
		return nil, err
	}
	return nil, kube.RemoveFinalizer(ctx, r.Garden, bucket, corev1beta1.FinalizerName)
}

// deleteObject deletes the extension BackupBucket, with the newest credentials if they can be read.
func (r *Reconciler) deleteObject(ctx context.Context, bucket *corev1beta1.BackupBucket) (extensionobject.Progress,
	error) {
	object := extensionBucket(bucket)
	found, err := kube.Exists(ctx, r.Seed, object)
	if err != nil {
		return extensionobject.Progress{}, err
	}
	if found {
		data, err := backup.Credentials(ctx, r.Garden, bucket.Spec.CredentialsRef)
		if err == nil {
			err = backup.CopySecret(ctx, r.Seed, backup.BucketSecretPrefix+bucket.Name, data)
		}
		if err != nil && !errors.Is(err, backup.ErrUnusable) { // The copy in the seed is used instead.
			return extensionobject.Progress{}, err
		}
	}
	return extensionobject.Delete(ctx, r.Seed, object, backup.FailingSince(bucket.Status.LastError), r.Clock.Now())
}

// maxUsers bounds the entries that a message names.
const maxUsers = 5

// InUseBy returns the names of the entries that use a bucket, sorted, or "".
func InUseBy(bucket string, entries []corev1beta1.BackupEntry) string {
	var users []string
	for i := range entries {
		if entries[i].Spec.BucketName == bucket {
			users = append(users, entries[i].Namespace+"/"+entries[i].Name)
		}
	}
	if len(users) == 0 {
		return ""
	}
	slices.Sort(users)
	more := ""
	if n := len(users) - maxUsers; n > 0 {
		users, more = users[:maxUsers], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("BackupBucket %s is still in use by BackupEntries %s%s", bucket, strings.Join(users, ", "), more)
}
