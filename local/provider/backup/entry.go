package backup

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/credentials"
)

const (
	secretName   = "etcd-backup"
	sourcePrefix = "source-"
	// KeyBucketName is the key of the bucket's name in the Secret, next to the provider's credentials.
	KeyBucketName = "bucketName"
	// annotationCreatedBy names the entry that made the Secret: during a migration two entries could claim it.
	annotationCreatedBy = "backup.gardener.cloud/created-by"
	// batchesPerCall bounds one call of Delete to a second or two.
	batchesPerCall = 10
)

// EntryActuator acts on BackupEntries.
type EntryActuator struct {
	Client client.Client
	Cloud  CloudFunc
}

var _ extension.Actuator[*extensionsv1alpha1.BackupEntry] = &EntryActuator{}

// SecretKey returns where the Secret of an entry is. Entries are named <namespace>--<uid>, with the prefix source-
// for the place a migration copies from.
func SecretKey(entry string) (client.ObjectKey, error) {
	name := secretName
	namespace, isSource := strings.CutPrefix(entry, sourcePrefix)
	if isSource {
		name = sourcePrefix + secretName
	}
	cut := strings.LastIndex(namespace, "--")
	if cut <= 0 {
		return client.ObjectKey{}, fmt.Errorf("backup entry %q is not named <namespace>--<uid>", entry)
	}
	return client.ObjectKey{Namespace: namespace[:cut], Name: name}, nil
}

// Reconcile writes the Secret for etcd, if its namespace exists and is not being deleted.
func (a *EntryActuator) Reconcile(
	ctx context.Context, entry *extensionsv1alpha1.BackupEntry, _ *extension.Cluster,
) (extension.Result, error) {
	key, err := SecretKey(entry.Name)
	if err != nil {
		return extension.Result{}, err
	}
	ns := &corev1.Namespace{}
	err = a.Client.Get(ctx, client.ObjectKey{Name: key.Namespace}, ns)
	if apierrors.IsNotFound(err) || (err == nil && !ns.DeletionTimestamp.IsZero()) {
		return extension.Done(), nil
	}
	if err != nil {
		return extension.Result{}, fmt.Errorf("read namespace %q: %w", key.Namespace, err)
	}
	data, err := a.secretData(ctx, entry)
	if err != nil {
		return extension.Result{}, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, err = controllerutil.CreateOrPatch(ctx, a.Client, secret, func() error {
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		secret.Annotations[annotationCreatedBy] = entry.Name
		secret.Data = data
		return nil
	})
	if err != nil {
		return extension.Result{}, fmt.Errorf("apply secret %s: %w", key, err)
	}
	return extension.Done(), nil
}

// secretData returns the content of the Secret for etcd: the credentials of the bucket if it has some, and otherwise
// those of the account, with the keys for S3. It tries them first, so that invalid credentials never replace valid
// ones.
func (a *EntryActuator) secretData(ctx context.Context, entry *extensionsv1alpha1.BackupEntry) (
	map[string][]byte, error,
) {
	cfg, given, err := credentials.FromSecret(ctx, a.Client, entry.Spec.SecretRef)
	if err != nil {
		return nil, err
	}
	api, err := a.Cloud(ctx, a.Client, entry.Spec.SecretRef)
	if err != nil {
		return nil, err
	}
	if _, err := api.GetBucket(ctx, entry.Spec.BucketName); err != nil {
		return nil, fmt.Errorf("use bucket of backup entry: %w", err)
	}
	data := credentials.S3Data(cfg, entry.Spec.Region)
	if credentials.IsS3(given.Data) {
		data = maps.Clone(given.Data)
	}
	data[KeyBucketName] = []byte(entry.Spec.BucketName)
	return data, nil
}

// Restore does what Reconcile does.
func (a *EntryActuator) Restore(
	ctx context.Context, entry *extensionsv1alpha1.BackupEntry, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, entry, cluster)
}

// Migrate does nothing: the Secret is deleted with its namespace, and the other seed restores from the backups.
func (a *EntryActuator) Migrate(
	context.Context, *extensionsv1alpha1.BackupEntry, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the entry's Secret, and its objects from the bucket, many at a time. It stops after batchesPerCall
// batches, so that other entries need not wait; the next call continues, as it does after an interruption.
func (a *EntryActuator) Delete(
	ctx context.Context, entry *extensionsv1alpha1.BackupEntry, _ *extension.Cluster,
) (extension.Result, error) {
	if err := a.deleteSecret(ctx, entry); err != nil {
		return extension.Result{}, err
	}
	api, err := a.Cloud(ctx, a.Client, entry.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	for range batchesPerCall {
		// The slash excludes entries whose names begin with this one.
		objects, err := api.ListObjectsAfter(ctx, entry.Spec.BucketName, entry.Name+"/", "", cloud.MaxDeleteObjects)
		if cloud.IsNotFound(err) || (err == nil && len(objects) == 0) {
			return extension.Done(), nil
		}
		if err != nil {
			return extension.Result{}, err
		}
		keys := make([]string, 0, len(objects))
		for _, o := range objects {
			keys = append(keys, o.Key)
		}
		if err := api.DeleteObjects(ctx, entry.Spec.BucketName, keys); cloud.IgnoreNotFound(err) != nil {
			return extension.Result{}, err
		}
	}
	return extension.Waiting(fmt.Sprintf("%d objects are deleted, others are left", batchesPerCall*cloud.MaxDeleteObjects),
		time.Second), nil
}

// ForceDelete leaves the backups to the operator.
func (a *EntryActuator) ForceDelete(
	ctx context.Context, entry *extensionsv1alpha1.BackupEntry, _ *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), a.deleteSecret(ctx, entry)
}

func (a *EntryActuator) deleteSecret(ctx context.Context, entry *extensionsv1alpha1.BackupEntry) error {
	key, err := SecretKey(entry.Name)
	if err != nil {
		return nil //nolint:nilerr // Such an entry never had a Secret.
	}
	secret := &corev1.Secret{}
	if err := a.Client.Get(ctx, key, secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	if secret.Annotations[annotationCreatedBy] != entry.Name {
		return nil
	}
	if err := a.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete secret %s: %w", key, err)
	}
	return nil
}
