package backupbucket

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/backup"
	"hortus.dev/hortus/internal/kube"
)

// publish copies the provider status and the generated credentials of the extension to the garden: entries of other
// seeds need them while control planes move.
func (r *Reconciler) publish(ctx context.Context, bucket *corev1beta1.BackupBucket,
	object *extensionsv1alpha1.BackupBucket) error {
	bucket.Status.ProviderStatus = object.Status.ProviderStatus
	ref := object.Status.GeneratedSecretRef
	if ref == nil {
		bucket.Status.GeneratedSecretRef = nil
		return r.removeGenerated(ctx, bucket)
	}
	secret := &corev1.Secret{}
	if err := r.Seed.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return fmt.Errorf("read Secret %s/%s that was generated for the bucket: %w", ref.Namespace, ref.Name, err)
	}
	name := backup.GeneratedSecretPrefix + bucket.Name
	owner := metav1.OwnerReference{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "BackupBucket", Name: bucket.Name, UID: bucket.UID,
	}
	if err := backup.CopySecret(ctx, r.Garden, name, secret.Data, owner); err != nil {
		return err
	}
	generated := &corev1.Secret{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: name},
		generated); err != nil {
		return fmt.Errorf("read Secret %q: %w", name, err)
	}
	if err := kube.EnsureFinalizer(ctx, r.Garden, generated, corev1beta1.FinalizerBackupBucket); err != nil {
		return err
	}
	bucket.Status.GeneratedSecretRef = &corev1.SecretReference{Namespace: corev1beta1.GardenNamespace, Name: name}
	return nil
}

// removeGenerated deletes the published Secret if there is one.
func (r *Reconciler) removeGenerated(ctx context.Context, bucket *corev1beta1.BackupBucket) error {
	name := backup.GeneratedSecretPrefix + bucket.Name
	generated := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: name}}
	found, err := kube.Exists(ctx, r.Garden, generated)
	if err != nil || !found {
		return err
	}
	if err := kube.RemoveFinalizer(ctx, r.Garden, generated, corev1beta1.FinalizerBackupBucket); err != nil {
		return err
	}
	_, err = backup.DeleteSecret(ctx, r.Garden, name)
	return err
}
