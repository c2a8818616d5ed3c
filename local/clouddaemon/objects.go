package clouddaemon

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	api "hortus.dev/hortus/local/cloud"
)

func checkObjectKey(key string) error {
	if key == "" || len(key) > maxKeyBytes {
		return invalid("key: invalid length: %d bytes (1 to %d)", len(key), maxKeyBytes)
	}
	return nil
}

// putObject stores content under a key.
func (c *Cloud) putObject(who caller, bucketName, key string, content io.Reader) (*api.Object, error) {
	o, err := c.writeObject(who, bucketName, key, content)
	if err != nil {
		return nil, err
	}
	o.ETag = o.md5
	if err := c.commitObject(who, &o.object, nil); err != nil {
		return nil, err
	}
	return &o.Object, nil
}

// written is an object whose content is in its file and whose record is not in the store yet.
type written struct {
	object
	md5 string
}

// writeObject writes the content to a file of its own. Files without record are removed at the next start.
func (c *Cloud) writeObject(who caller, bucketName, key string, content io.Reader) (written, error) {
	if err := checkObjectKey(key); err != nil {
		return written{}, err
	}
	if _, err := c.getBucket(who, bucketName); err != nil { // Before the content arrives.
		return written{}, err
	}
	dir := c.path("buckets", bucketName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return written{}, fmt.Errorf("make directory of bucket %q: %w", bucketName, err)
	}
	sum, etag := sha256.New(), md5.New()
	file, size, err := c.writeContent(dir, "object-", io.TeeReader(content, io.MultiWriter(sum, etag)))
	if err != nil {
		return written{}, err
	}
	return written{
		object: object{
			Object: api.Object{Key: key, SizeBytes: size, SHA256: hex.EncodeToString(sum.Sum(nil))},
			Bucket: bucketName, File: file,
		},
		md5: hex.EncodeToString(etag.Sum(nil)),
	}, nil
}

// writeContent writes a new file and returns its name.
func (c *Cloud) writeContent(dir, prefix string, content io.Reader) (name string, size int64, err error) {
	f, err := os.CreateTemp(dir, prefix)
	if err != nil {
		return "", 0, fmt.Errorf("make object file: %w", err)
	}
	size, err = io.Copy(f, content)
	if err == nil && !c.cfg.NoSync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, errors.Join(fmt.Errorf("write object: %w", err), os.Remove(f.Name()))
	}
	return filepath.Base(f.Name()), size, nil
}

// commitObject points the record of an object to its content, so that readers see the old or the new one, and never a
// part. check, if not nil, is called with the existing object, or nil if there is none, while nothing else can change.
// If the record cannot be written the content is removed.
func (c *Cloud) commitObject(who caller, o *object, check func(old *object) error) error {
	o.UpdatedAt = c.clock.Now().UTC()
	var replaced string
	err := c.store.update(func(tx *tx) error {
		if _, err := c.bucketOf(who, o.Bucket); err != nil { // It may have been deleted while the content arrived.
			return err
		}
		old, exists := c.store.objects.get(objectKey(o.Bucket, o.Key))
		replaced = old.File
		if check != nil {
			seen := &old
			if !exists {
				seen = nil
			}
			if err := check(seen); err != nil {
				return err
			}
		}
		c.store.objects.put(tx, objectKey(o.Bucket, o.Key), *o)
		return nil
	})
	if err != nil {
		c.removeContent(o.Bucket, o.File)
		return err
	}
	if replaced != "" {
		c.removeContent(o.Bucket, replaced)
	}
	return nil
}

func (c *Cloud) objectOf(who caller, bucketName, key string) (object, error) {
	if _, err := c.bucketOf(who, bucketName); err != nil {
		return object{}, err
	}
	o, ok := c.store.objects.get(objectKey(bucketName, key))
	if !ok {
		return object{}, api.Errorf(api.CodeNotFound, "object: not found: %q in bucket %q", key, bucketName)
	}
	return o, nil
}

// openObject opens the content of an object. The file is opened while nothing changes, so a replacement that removes
// it does not disturb the reader.
func (c *Cloud) openObject(who caller, bucketName, key string) (o object, content *os.File, err error) {
	c.store.view(func() {
		if o, err = c.objectOf(who, bucketName, key); err == nil {
			content, err = os.Open(c.path("buckets", bucketName, o.File))
		}
	})
	return o, content, err
}

// listObjects returns the objects whose keys begin with prefix and come after a key; a limit of 0 means all.
func (c *Cloud) listObjects(who caller, bucketName, prefix, after string, limit int) (
	out api.List[api.Object], err error,
) {
	out.Items = []api.Object{}
	c.store.view(func() {
		out.Revision = c.store.revision
		if _, err = c.bucketOf(who, bucketName); err != nil {
			return
		}
		err = c.store.eachObject(bucketName, prefix, nextKey(after), func(o object) bool {
			out.Items = append(out.Items, o.Object)
			return limit == 0 || len(out.Items) < limit
		})
	})
	return out, err
}

// nextKey returns the first key that can follow another; "" remains "", which precedes all keys.
func nextKey(key string) string {
	if key == "" {
		return ""
	}
	return key + "\x00"
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
		c.removeContent(bucketName, gone.File)
	}
	return err
}

// deleteObjects removes many objects at once; missing ones are fine.
func (c *Cloud) deleteObjects(who caller, bucketName string, keys []string) error {
	var files []string
	err := c.store.update(func(tx *tx) error {
		if _, err := c.bucketOf(who, bucketName); err != nil {
			return err
		}
		files = nil
		for _, key := range keys {
			if o, ok := c.store.objects.get(objectKey(bucketName, key)); ok {
				files = append(files, o.File)
				c.store.objects.remove(tx, objectKey(bucketName, key))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range files {
		c.removeContent(bucketName, f)
	}
	return nil
}

// removeLooseObjects removes the files of objects that have no record: uploads that were cut off, and replaced
// content.
func (c *Cloud) removeLooseObjects() error {
	files, err := filepath.Glob(c.path("buckets", "*", "object-*")) // First: a file is written before its record.
	if err != nil {
		return err
	}
	known := map[string]bool{}
	c.store.view(func() {
		for _, o := range c.store.objects.rows {
			known[filepath.Join(o.Bucket, o.File)] = true
		}
	})
	for _, f := range files {
		if rel, err := filepath.Rel(c.path("buckets"), f); err == nil && !known[rel] {
			if err := os.Remove(f); err != nil {
				return fmt.Errorf("remove loose object: %w", err)
			}
		}
	}
	return nil
}
