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
	// gardenBucket has the backups of both etcds of the garden's cluster, each below a prefix of its own: that of its
	// kube-apiserver and that of the garden's API server.
	gardenBucket         = "hortus-garden"
	prefixKubernetesEtcd = "kubernetes-etcd"
	prefixGardenEtcd     = "hortus-etcd"
	// keyBucketName is the key by which etcd finds the bucket among the credentials.
	keyBucketName = "bucketName"
)

// backupStore is what the file with the bucket's credentials has.
type backupStore struct {
	AccessKey, SecretKey string
}

// ensureBackupStore makes the bucket for the garden's backups and credentials that open nothing else, once. It returns
// them as the keys of a Secret for etcd. A bucket that has vanished since is not made again: nobody would notice that
// the backups in it are lost.
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
