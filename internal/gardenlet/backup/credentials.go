package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// Prefixes of Secrets in namespace garden; the name of the bucket or the entry follows.
const (
	// BucketSecretPrefix names the copy of the credentials in the seed for the extension BackupBucket.
	BucketSecretPrefix = "bucket-"
	// EntrySecretPrefix names the copy of the credentials in the seed for an extension BackupEntry.
	EntrySecretPrefix = "entry-"
	// GeneratedSecretPrefix names the copy in the garden of the credentials that the extension has generated for a bucket.
	GeneratedSecretPrefix = "generated-bucket-"
)

// ErrUnusable is the cause of errors that only the operator of the seed can resolve.
var ErrUnusable = errors.New("the credentials cannot be used")

// Credentials reads the credentials that a reference in the garden points to.
func Credentials(ctx context.Context, garden client.Reader, ref *corev1.ObjectReference) (map[string][]byte, error) {
	switch {
	case ref == nil:
		return nil, fmt.Errorf("%w: spec.credentialsRef is not set", ErrUnusable)
	case ref.Kind != "Secret" && ref.Kind != "":
		return nil, fmt.Errorf("%w: %s %s/%s: the kind is not supported for backups (supported: Secret)", ErrUnusable,
			ref.Kind, ref.Namespace, ref.Name)
	}
	return secretData(ctx, garden, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
}

// CredentialsOfBucket reads the credentials for access to a bucket: those that its extension has generated, or else
// those with which the bucket was created.
func CredentialsOfBucket(ctx context.Context, garden client.Reader,
	bucket *corev1beta1.BackupBucket) (map[string][]byte, error) {
	if ref := bucket.Status.GeneratedSecretRef; ref != nil {
		return secretData(ctx, garden, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	}
	return Credentials(ctx, garden, bucket.Spec.CredentialsRef)
}

func secretData(ctx context.Context, c client.Reader, key client.ObjectKey) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, key, secret)
	// A Secret that the gardenlet may not read counts as missing: the seed authorizer learns of a new reference a moment
	// after its creation.
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%w: read Secret %s: %w", ErrUnusable, key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return secret.Data, nil
}

// CopySecret creates or updates a Secret in namespace garden with exactly this data. Finalizers of others remain.
func CopySecret(ctx context.Context, c client.Client, name string, data map[string][]byte,
	owners ...metav1.OwnerReference) error {
	key := metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: name}
	current := &corev1.Secret{ObjectMeta: key}
	found, err := kube.Exists(ctx, c, current)
	if err != nil || found && Checksum(current.Data) == Checksum(data) {
		return err
	}
	key.OwnerReferences = owners
	return kube.Apply(ctx, c, &corev1.Secret{ObjectMeta: key, Type: corev1.SecretTypeOpaque, Data: data}, fieldOwner)
}

// fieldOwner owns the fields that are applied.
const fieldOwner = "gardenlet-backup"

// Checksum is equal for equal data.
func Checksum(data map[string][]byte) string {
	encoded, err := json.Marshal(data) // Keys are sorted.
	if err != nil {
		panic(fmt.Sprintf("backup: encode data of a Secret: %v", err)) // Maps of bytes can always be encoded.
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// DeleteSecret deletes a Secret in namespace garden and reports whether it is gone.
func DeleteSecret(ctx context.Context, c client.Client, name string) (gone bool, err error) {
	return kube.Delete(ctx, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace,
		Name: name}})
}
