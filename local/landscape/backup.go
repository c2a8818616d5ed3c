package landscape

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/credentials"
)

const (
	// gardenBucket holds the backups of the two etcds of the garden's cluster, each below a prefix of its own: the etcd
	// of its kube-apiserver and the etcd of the garden's API server.
	gardenBucket         = "hortus-garden"
	prefixKubernetesEtcd = "kubernetes-etcd"
	prefixGardenEtcd     = "hortus-etcd"
	// keyBucketName is the key of the bucket's name among the credentials for etcd.
	keyBucketName = "bucketName"
)

// backupStore is the content of the file with the bucket's credentials.
type backupStore struct {
	AccessKey, SecretKey string
}

// ensureBackupStore makes the bucket for the garden's backups and credentials that are limited to it, once. It returns
// the credentials as the keys of a Secret for etcd. It does not recreate a bucket that was deleted since: that would
// hide the loss of the backups.
func ensureBackupStore(ctx context.Context, o Options, c *cloud.Client, about *cloud.About) (map[string]string, error) {
	path := filepath.Join(o.StateDir, "landscape", "garden-backup.json")
	kept, err := loadOrMake(path, func() (*backupStore, error) {
		if _, err := c.CreateBucket(ctx, gardenBucket); err != nil {
			return nil, fmt.Errorf("create bucket %q: %w", gardenBucket, err)
		}
		made, err := c.CreateBucketCredentials(ctx, gardenBucket)
		if err != nil {
			return nil, fmt.Errorf("create credentials of bucket %q: %w", gardenBucket, err)
		}
		return &backupStore{AccessKey: made.AccessKey, SecretKey: made.SecretKey}, nil
	})
	if err != nil {
		return nil, err
	}
	_, err = c.GetBucket(ctx, gardenBucket)
	if cloud.IsNotFound(err) {
		return nil,
			fmt.Errorf("bucket %q has vanished with the backups of the garden in it. To continue without them remove %s",
				gardenBucket, path)
	}
	if err != nil {
		return nil, fmt.Errorf("read bucket %q: %w", gardenBucket, err)
	}
	config, err := cloud.LoadConfig(cloud.AdminFile(o.StateDir))
	if err != nil {
		return nil, err
	}
	config.AccessKey, config.SecretKey = kept.AccessKey, kept.SecretKey
	store := map[string]string{keyBucketName: gardenBucket}
	for key, value := range credentials.S3Data(config, about.Region) {
		store[key] = string(value)
	}
	return store, nil
}

// storeValues are the credentials as values of a chart.
func storeValues(store map[string]string) map[string]any {
	values := map[string]any{}
	for key := range maps.Keys(store) {
		values[key] = store[key]
	}
	return values
}
