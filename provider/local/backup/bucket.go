// Package backup acts on BackupBuckets and BackupEntries: buckets of the cloud, and the Secret by which etcd finds its place
// in one.
package backup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/cloud"
	"hortus.dev/hortus/extension"
)

// Buckets is the part of the cloud the actuators need.
type Buckets interface {
	CreateBucket(ctx context.Context, name string) (*cloud.Bucket, error)
	DeleteBucket(ctx context.Context, name string, force bool) error
	ListObjects(ctx context.Context, bucket, prefix string) ([]cloud.Object, error)
	DeleteObject(ctx context.Context, bucket, key string) error
}

// CloudFunc returns the cloud for the credentials in a Secret.
type CloudFunc func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (Buckets, error)

// BucketActuator acts on BackupBuckets.
type BucketActuator struct {
	Client client.Reader
	Cloud  CloudFunc
}

var _ extension.Actuator[*extensionsv1alpha1.BackupBucket] = &BucketActuator{}

// Reconcile makes the bucket. Its name is the object's.
func (a *BucketActuator) Reconcile(ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, _ *extension.Cluster) (extension.Result, error) {
	api, err := a.Cloud(ctx, a.Client, bucket.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	_, err = api.CreateBucket(ctx, bucket.Name)
	return extension.Done(), err
}

// Restore does what Reconcile does.
func (a *BucketActuator) Restore(ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, cluster *extension.Cluster) (extension.Result, error) {
	return a.Reconcile(ctx, bucket, cluster)
}

// Migrate has nothing in the seed to remove.
func (a *BucketActuator) Migrate(context.Context, *extensionsv1alpha1.BackupBucket, *extension.Cluster) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the bucket with what is in it: every entry has been deleted before.
func (a *BucketActuator) Delete(ctx context.Context, bucket *extensionsv1alpha1.BackupBucket, _ *extension.Cluster) (extension.Result, error) {
	api, err := a.Cloud(ctx, a.Client, bucket.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	return extension.Done(), cloud.IgnoreNotFound(api.DeleteBucket(ctx, bucket.Name, true))
}

// ForceDelete leaves the bucket to the operator.
func (a *BucketActuator) ForceDelete(context.Context, *extensionsv1alpha1.BackupBucket, *extension.Cluster) (extension.Result, error) {
	return extension.Done(), nil
}
