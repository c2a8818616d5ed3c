package backupentry

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/backup"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// migrate releases the backups without touching them and hands the entry to the seed that the spec names.
func (r *Reconciler) migrate(ctx context.Context, entry *corev1beta1.BackupEntry) (*outcome, error) {
	progress, err := extensionobject.Migrate(ctx, r.Seed, named(entry), backup.FailingSince(entry.Status.LastError),
		r.Clock.Now())
	if err != nil {
		return nil, err
	}
	if progress.State != extensionobject.Done {
		return &outcome{backup.FromExtension(progress), progress.RetryAt}, nil
	}
	if _, err := backup.DeleteSecret(ctx, r.Seed, backup.EntrySecretPrefix+entry.Name); err != nil {
		return nil, err
	}
	entry.Status.ObservedGeneration = entry.Generation
	entry.Status.SeedName, entry.Status.MigrationStartTime = nil, nil
	return &outcome{report: backup.Succeeded("Backup entry has been successfully migrated.")}, nil
}

// remove deletes the backups, and then the entry. A nil outcome means that it is gone.
func (r *Reconciler) remove(ctx context.Context, entry *corev1beta1.BackupEntry) (*outcome, error) {
	object := named(entry)
	found, err := kube.Exists(ctx, r.Seed, object)
	if err != nil {
		return nil, err
	}
	if found {
		if err := r.refreshCredentials(ctx, entry); err != nil {
			return nil, err
		}
	}
	progress, err := extensionobject.Delete(ctx, r.Seed, object, backup.FailingSince(entry.Status.LastError),
		r.Clock.Now())
	if err != nil {
		return nil, err
	}
	if progress.State != extensionobject.Done {
		return &outcome{backup.FromExtension(progress), progress.RetryAt}, nil
	}
	if _, err := backup.DeleteSecret(ctx, r.Seed, backup.EntrySecretPrefix+entry.Name); err != nil {
		return nil, err
	}
	return nil, kube.RemoveFinalizer(ctx, r.Garden, entry, corev1beta1.FinalizerName)
}

// refreshCredentials puts the newest credentials into the seed if they can be read; otherwise those there have to do.
func (r *Reconciler) refreshCredentials(ctx context.Context, entry *corev1beta1.BackupEntry) error {
	bucket := &corev1beta1.BackupBucket{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: entry.Spec.BucketName}, bucket); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("read BackupBucket %q: %w", entry.Spec.BucketName, err)
	}
	data, err := backup.CredentialsOfBucket(ctx, r.Garden, bucket)
	if err == nil {
		return backup.CopySecret(ctx, r.Seed, backup.EntrySecretPrefix+entry.Name, data)
	}
	if errors.Is(err, backup.ErrUnusable) {
		return nil
	}
	return err
}

// named is the extension BackupEntry of an entry, to be read.
func named(entry *corev1beta1.BackupEntry) *extensionsv1alpha1.BackupEntry {
	return &extensionsv1alpha1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: entry.Name}}
}
