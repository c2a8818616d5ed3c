package clouddaemon

import (
	"errors"
	"os"

	api "hortus.dev/hortus/local/cloud"
)

func (c *Cloud) createBucket(who caller, name string) (*api.Bucket, error) {
	if !bucketName.MatchString(name) {
		return nil, invalid("name: invalid value: %q (3 to 63 lower case letters, digits, - and .)", name)
	}
	var out api.Bucket
	err := c.store.update(func(tx *tx) error {
		if old, ok := c.store.buckets.get(name); ok {
			if old.Account != who.account {
				return api.Errorf(api.CodeAlreadyExists, "bucket %q: already exists in another account", name)
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
	if !ok || !who.may(b.Account) || (who.bucket != "" && who.bucket != name) {
		return bucket{}, api.Errorf(api.CodeNotFound, "bucket: not found: %q", name)
	}
	return b, nil
}

func (c *Cloud) getBucket(who caller, name string) (*api.Bucket, error) {
	var b bucket
	var err error
	c.store.view(func() { b, err = c.bucketOf(who, name) })
	if err != nil {
		return nil, err
	}
	return &b.Bucket, nil
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

// deleteBucket removes a bucket and its objects. It removes the files of the objects one by one and not the whole
// directory, since the bucket may already have been created again.
func (c *Cloud) deleteBucket(who caller, name string, force bool) error {
	var objects []object
	err := c.store.update(func(tx *tx) error {
		if _, err := c.bucketOf(who, name); err != nil {
			return err
		}
		objects = nil
		err := c.store.eachObject(name, "", "", func(o object) bool {
			objects = append(objects, o)
			return true
		})
		if err != nil {
			return err
		}
		if len(objects) > 0 && !force {
			return api.Errorf(api.CodeDependency, "bucket %q: not empty: %d objects", name, len(objects))
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
	for _, o := range objects {
		c.removeContent(name, o.File)
	}
	c.dropUploads(func(u *upload) bool { return u.bucket == name })
	_ = os.Remove(c.path("buckets", name)) // Fails if it is in use again.
	return nil
}

// createBucketCredentials makes credentials that are limited to the objects in a bucket, or returns those made
// before.
func (c *Cloud) createBucketCredentials(who caller, name string) (out *api.Credentials, err error) {
	err = c.store.update(func(tx *tx) error {
		b, err := c.bucketOf(who, name)
		if err != nil {
			return err
		}
		for _, known := range c.bucketCredentials(b.Account, name) {
			out = &known.Credentials
			return nil
		}
		out, err = c.addCredentials(tx, api.Credentials{Account: b.Account, Bucket: name})
		return err
	})
	return out, err
}

// deleteBucketCredentials revokes the credentials of a bucket, also after the bucket itself was deleted.
func (c *Cloud) deleteBucketCredentials(who caller, name string) error {
	return c.store.update(func(tx *tx) error {
		account := who.account
		if b, ok := c.store.buckets.get(name); ok && who.may(b.Account) {
			account = b.Account
		}
		found := c.bucketCredentials(account, name)
		if len(found) == 0 {
			return api.Errorf(api.CodeNotFound, "bucket %q: no credentials of its own", name)
		}
		for _, r := range found {
			c.store.credentials.remove(tx, r.AccessKey)
		}
		return nil
	})
}

func (c *Cloud) bucketCredentials(account, bucket string) []credentials {
	return c.store.credentials.sorted(func(r credentials) bool { return r.Account == account && r.Bucket == bucket })
}

// removeContent removes a file whose record was deleted. If that fails, the file is removed at the next start at the
// latest.
func (c *Cloud) removeContent(bucket, file string) {
	if err := os.Remove(c.path("buckets", bucket, file)); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.log.Error("Removing the content of an object failed", "bucket", bucket, "file", file, "error", err)
	}
}
