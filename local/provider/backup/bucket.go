// Package backup acts on BackupBuckets and BackupEntries: buckets of the cloud with credentials of their own, and the
// Secret with which etcd accesses its part of a bucket.
package backup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// Buckets is the part of the cloud the actuators need.
type Buckets interface {
	GetBucket(ctx context.Context, name string) (*cloud.Bucket, error)
	CreateBucket(ctx context.Context, name string) (*cloud.Bucket, error)
	DeleteBucket(ctx context.Context, name string, force bool) error
	CreateBucketCredentials(ctx context.Context, bucket string) (*cloud.Credentials, error)
	DeleteBucketCredentials(ctx context.Context, bucket string) error
	ListObjectsAfter(ctx context.Context, bucket, prefix, after string, limit int) ([]cloud.Object, error)
	DeleteObjects(ctx context.Context, bucket string, keys []string) error
}

// CloudFunc returns the cloud for the credentials in a Secret.
type CloudFunc func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (Buckets, error)

const (
	finalizer = extensionsv1alpha1.FinalizerPrefix + "backupbucket"
	// generatedPrefix begins the names of Secrets with the credentials of a bucket. The gardenlet publishes them as
	// generated-bucket-<name> in the garden, which may be the same cluster.
	generatedPrefix = "local-bucket-"
	statusKind      = "BackupBucketStatus"
	fieldOwner      = "provider-local"
)

// BucketActuator acts on BackupBuckets.
type BucketActuator struct {
	Client client.Client
	Cloud  CloudFunc
}

var _ extension.Actuator[*extensionsv1alpha1.BackupBucket] = &BucketActuator{}

// Reconcile makes the bucket, whose name is the object's, and credentials for it alone.
func (a *BucketActuator) Reconcile(
	ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, _ *extension.Cluster,
) (extension.Result, error) {
	cfg, _, err := credentials.FromSecret(ctx, a.Client, bucket.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	api, err := a.Cloud(ctx, a.Client, bucket.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	if err := ensureBucket(ctx, api, bucket); err != nil {
		return extension.Result{}, err
	}
	made, err := api.CreateBucketCredentials(ctx, bucket.Name)
	if err != nil {
		return extension.Result{}, err
	}
	cfg.AccessKey, cfg.SecretKey = made.AccessKey, made.SecretKey
	secret := generatedSecret(bucket, credentials.S3Data(cfg, bucket.Spec.Region))
	if err := kube.Apply(ctx, a.Client, secret, fieldOwner); err != nil {
		return extension.Result{}, fmt.Errorf("apply secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	bucket.Status.GeneratedSecretRef = &corev1.SecretReference{Namespace: secret.Namespace, Name: secret.Name}
	return extension.Done(), nil
}

// ensureBucket makes the bucket unless the status says that it was made before. It does not recreate a bucket that was
// deleted since: that would hide the loss of the backups. An operator who accepts the loss makes an empty one by hand.
func ensureBucket(ctx context.Context, api Buckets, bucket *extensionsv1alpha1.BackupBucket) error {
	status := &v1alpha1.BackupBucketStatus{}
	if err := v1alpha1.Decode(bucket.Status.ProviderStatus, statusKind, status); err != nil {
		return err
	}
	ensure := api.CreateBucket
	if !status.CreatedAt.IsZero() {
		ensure = api.GetBucket
	}
	found, err := ensure(ctx, bucket.Name)
	if cloud.IsNotFound(err) {
		return fmt.Errorf("bucket %q, created at %s, has vanished with the backups in it. "+
			"To continue without them create an empty one: hortus cloud buckets create %s",
			bucket.Name, status.CreatedAt.UTC().Format(time.RFC3339), bucket.Name)
	}
	if err != nil {
		return err
	}
	status.CreatedAt = metav1.NewTime(found.CreatedAt)
	bucket.Status.ProviderStatus, err = v1alpha1.Encode(statusKind, status)
	return err
}

// generatedSecret is the Secret with the credentials of a bucket. It stays as long as the bucket.
func generatedSecret(bucket *extensionsv1alpha1.BackupBucket, data map[string][]byte) *corev1.Secret {
	namespace := bucket.Annotations[extensionsv1alpha1.AnnotationGeneratedSecretNamespace]
	if namespace == "" {
		namespace = corev1beta1.GardenNamespace
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: generatedPrefix + bucket.Name, Finalizers: []string{finalizer},
		},
		Type: corev1.SecretTypeOpaque, Data: data,
	}
}

// Restore does what Reconcile does.
func (a *BucketActuator) Restore(
	ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, bucket, cluster)
}

// Migrate leaves everything as it is: buckets stay with their seed.
func (a *BucketActuator) Migrate(
	context.Context, *extensionsv1alpha1.BackupBucket, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the bucket with its content, since every entry has been deleted before, and then its credentials.
func (a *BucketActuator) Delete(
	ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, _ *extension.Cluster,
) (extension.Result, error) {
	api, err := a.Cloud(ctx, a.Client, bucket.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	if err := cloud.IgnoreNotFound(api.DeleteBucket(ctx, bucket.Name, true)); err != nil {
		return extension.Result{}, err
	}
	if err := cloud.IgnoreNotFound(api.DeleteBucketCredentials(ctx, bucket.Name)); err != nil {
		return extension.Result{}, err
	}
	return extension.Done(), a.deleteSecret(ctx, bucket)
}

// ForceDelete leaves the bucket to the operator.
func (a *BucketActuator) ForceDelete(
	ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, _ *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), a.deleteSecret(ctx, bucket)
}

func (a *BucketActuator) deleteSecret(ctx context.Context, bucket *extensionsv1alpha1.BackupBucket) error {
	secret := generatedSecret(bucket, nil)
	if ref := bucket.Status.GeneratedSecretRef; ref != nil { // The annotation may have changed.
		secret.Namespace, secret.Name = ref.Namespace, ref.Name
	}
	key := client.ObjectKeyFromObject(secret)
	if err := a.Client.Get(ctx, key, secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := kube.RemoveFinalizer(ctx, a.Client, secret, finalizer); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(a.Client.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("delete secret %s: %w", key, err)
	}
	bucket.Status.GeneratedSecretRef = nil
	return nil
}
