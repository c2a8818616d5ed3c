package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	api "hortus.dev/hortus/cloud"
)

func (c *Cloud) createBucket(who caller, name string) (*api.Bucket, error) {
	if !bucketName.MatchString(name) {
		return nil, invalid("bucket name %q must have 3 to 63 lower case letters, digits, - and .", name)
	}
	var out api.Bucket
	err := c.store.update(func(tx *tx) error {
		if old, ok := c.store.buckets.get(name); ok {
			if old.Account != who.account {
				return api.Errorf(api.CodeAlreadyExists, "bucket %q belongs to another account", name)
			}
			out = old.Bucket
			return nil
		}
		out = api.Bucket{Name: name, Account: who.account, CreatedAt: c.clock.Now().UTC()}
		c.store.buckets.put(tx, name, bucket{out})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

func (c *Cloud) bucketOf(who caller, name string) (bucket, error) {
	b, ok := c.store.buckets.get(name)
	if !ok || !who.may(b.Account) {
		return bucket{}, api.Errorf(api.CodeNotFound, "bucket %q does not exist", name)
	}
	return b, nil
}

func (c *Cloud) listBuckets(who caller) (out api.List[api.Bucket]) {
	out.Items = []api.Bucket{}
	c.store.view(func() {
		out.Revision = c.store.revision
		for _, b := range c.store.buckets.sorted(func(b bucket) bool { return who.may(b.Account) }) {
			out.Items = append(out.Items, b.Bucket)
		}
	})
	return out
}

func (c *Cloud) objectsIn(name, prefix string) []object {
	return c.store.objects.sorted(func(o object) bool { return o.Bucket == name && strings.HasPrefix(o.Key, prefix) })
}

func (c *Cloud) deleteBucket(who caller, name string, force bool) error {
	err := c.store.update(func(tx *tx) error {
		if _, err := c.bucketOf(who, name); err != nil {
			return err
		}
		objects := c.objectsIn(name, "")
		if len(objects) > 0 && !force {
			return api.Errorf(api.CodeDependency, "bucket %q still has %d objects", name, len(objects))
		}
		for _, o := range objects {
			c.store.objects.remove(tx, objectKey(name, o.Key))
		}
		c.store.buckets.remove(tx, name)
		return nil
	})
	if err != nil {
		return err
	}
	if err := os.RemoveAll(c.path("buckets", name)); err != nil {
		return fmt.Errorf("remove content of bucket %q: %w", name, err)
	}
	return nil
}

// putObject writes the content to a file of its own and then points the record to it, so that readers see the old or the
// new content, and never a part. Files without record are removed at the next start.
func (c *Cloud) putObject(who caller, bucketName, key string, content io.Reader) (*api.Object, error) {
	if key == "" || len(key) > maxKeyBytes {
		return nil, invalid("an object key has 1 to %d bytes", maxKeyBytes)
	}
	var err error
	c.store.view(func() { _, err = c.bucketOf(who, bucketName) })
	if err != nil {
		return nil, err
	}
	file, size, sum, err := c.writeObject(bucketName, content)
	if err != nil {
		return nil, err
	}
	out := object{
		Object: api.Object{Key: key, SizeBytes: size, SHA256: sum, UpdatedAt: c.clock.Now().UTC()},
		Bucket: bucketName, File: file,
	}
	var old object
	err = c.store.update(func(tx *tx) error {
		if _, err := c.bucketOf(who, bucketName); err != nil { // It may have gone while the content arrived.
			return err
		}
		old, _ = c.store.objects.get(objectKey(bucketName, key))
		c.store.objects.put(tx, objectKey(bucketName, key), out)
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, os.Remove(c.path("buckets", bucketName, file)))
	}
	if old.File != "" {
		_ = os.Remove(c.path("buckets", bucketName, old.File)) // Without record it is removed at the next start at the latest.
	}
	return &out.Object, nil
}

func (c *Cloud) writeObject(bucketName string, content io.Reader) (file string, size int64, sum string, err error) {
	dir := c.path("buckets", bucketName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", 0, "", fmt.Errorf("make directory of bucket %q: %w", bucketName, err)
	}
	f, err := os.CreateTemp(dir, "object-")
	if err != nil {
		return "", 0, "", fmt.Errorf("make object file: %w", err)
	}
	digest := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, digest), content)
	if err == nil && !c.cfg.NoSync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, "", errors.Join(fmt.Errorf("write object: %w", err), os.Remove(f.Name()))
	}
	return filepath.Base(f.Name()), size, hex.EncodeToString(digest.Sum(nil)), nil
}

func (c *Cloud) objectOf(who caller, bucketName, key string) (object, error) {
	if _, err := c.bucketOf(who, bucketName); err != nil {
		return object{}, err
	}
	o, ok := c.store.objects.get(objectKey(bucketName, key))
	if !ok {
		return object{}, api.Errorf(api.CodeNotFound, "object %q does not exist in bucket %q", key, bucketName)
	}
	return o, nil
}

// getObject opens the content of an object. The file is opened while nothing changes, so a replacement that removes it
// does not disturb the reader.
func (c *Cloud) getObject(who caller, bucketName, key string) (content io.ReadCloser, err error) {
	c.store.view(func() {
		var o object
		if o, err = c.objectOf(who, bucketName, key); err == nil {
			content, err = os.Open(c.path("buckets", bucketName, o.File))
		}
	})
	return content, err
}

func (c *Cloud) listObjects(who caller, bucketName, prefix string) (out api.List[api.Object], err error) {
	out.Items = []api.Object{}
	c.store.view(func() {
		out.Revision = c.store.revision
		if _, err = c.bucketOf(who, bucketName); err != nil {
			return
		}
		for _, o := range c.objectsIn(bucketName, prefix) {
			out.Items = append(out.Items, o.Object)
		}
	})
	return out, err
}

func (c *Cloud) deleteObject(who caller, bucketName, key string) error {
	var gone object
	err := c.store.update(func(tx *tx) error {
		o, err := c.objectOf(who, bucketName, key)
		if err != nil {
			return err
		}
		gone = o
		c.store.objects.remove(tx, objectKey(bucketName, key))
		return nil
	})
	if err == nil {
		_ = os.Remove(c.path("buckets", bucketName, gone.File)) // Without record it is removed at the next start at the latest.
	}
	return err
}

// removeLooseObjects removes the files of objects that have no record: uploads that were cut off, and replaced content.
func (c *Cloud) removeLooseObjects() error {
	known := map[string]bool{}
	c.store.view(func() {
		for _, o := range c.store.objects.rows {
			known[filepath.Join(o.Bucket, o.File)] = true
		}
	})
	files, err := filepath.Glob(c.path("buckets", "*", "object-*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if rel, err := filepath.Rel(c.path("buckets"), f); err == nil && !known[rel] {
			if err := os.Remove(f); err != nil {
				return fmt.Errorf("remove loose object: %w", err)
			}
		}
	}
	return nil
}
