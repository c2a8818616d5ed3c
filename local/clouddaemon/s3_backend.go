package clouddaemon

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/rclone/gofakes3"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/s3"
)

// s3Backend lets the library act on the cloud's buckets and objects, the same that the API has. It acts for the
// caller in the context.
type s3Backend struct{ c *Cloud }

var (
	_ gofakes3.Backend          = &s3Backend{}
	_ gofakes3.MultipartBackend = &s3Backend{}
)

// libraryError translates errors of buckets and objects into those the library has answers for.
func libraryError(err error, bucket, key string) error {
	var known gofakes3.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known): // The error is about the body, or a condition.
		return known
	case api.IsNotFound(err) && key != "":
		return gofakes3.KeyNotFound(key)
	case api.IsNotFound(err):
		return gofakes3.BucketNotFound(bucket)
	case api.CodeOf(err) == api.CodeInvalid:
		return gofakes3.ErrorMessage(gofakes3.ErrInvalidArgument, err.Error())
	case api.CodeOf(err) == api.CodeAlreadyExists:
		return gofakes3.ResourceError(gofakes3.ErrBucketAlreadyExists, bucket)
	case api.CodeOf(err) == api.CodeDependency:
		return gofakes3.ResourceError(gofakes3.ErrBucketNotEmpty, bucket)
	default:
		return err // The library logs it and answers InternalError.
	}
}

// ListBuckets implements [gofakes3.Backend].
func (b *s3Backend) ListBuckets(ctx context.Context) ([]gofakes3.BucketInfo, error) {
	var out []gofakes3.BucketInfo
	for _, one := range b.c.listBuckets(callerOf(ctx)).Items {
		out = append(out, gofakes3.BucketInfo{Name: one.Name, CreationDate: gofakes3.NewContentTime(one.CreatedAt)})
	}
	return out, nil
}

// CreateBucket implements [gofakes3.Backend]. A bucket that the account already has is fine, as in the oldest region
// of S3.
func (b *s3Backend) CreateBucket(ctx context.Context, name string) error {
	_, err := b.c.createBucket(callerOf(ctx), name)
	return libraryError(err, name, "")
}

// BucketExists implements [gofakes3.Backend].
func (b *s3Backend) BucketExists(ctx context.Context, name string) (bool, error) {
	_, err := b.c.getBucket(callerOf(ctx), name)
	return err == nil, api.IgnoreNotFound(err)
}

// DeleteBucket implements [gofakes3.Backend].
func (b *s3Backend) DeleteBucket(ctx context.Context, name string) error {
	return libraryError(b.c.deleteBucket(callerOf(ctx), name, false), name, "")
}

// ListBucket implements [gofakes3.Backend]. It costs as much as what is listed: keys below a common prefix are
// skipped at once.
func (b *s3Backend) ListBucket(
	ctx context.Context, name string, prefix *gofakes3.Prefix, page gofakes3.ListBucketPage,
) (out *gofakes3.ObjectList, err error) {
	if prefix == nil {
		prefix = &gofakes3.Prefix{}
	}
	b.c.store.view(func() {
		if _, err = b.c.bucketOf(callerOf(ctx), name); err == nil {
			out, err = listPage(b.c.store, name, prefix.Prefix, prefix.Delimiter, page.Marker, int(page.MaxKeys))
		}
	})
	return out, libraryError(err, name, "")
}

// listPage lists the keys with a prefix that come after marker, at most limit of them; 0 means all. Keys in which the
// delimiter follows the prefix are put together into one entry per common prefix.
func listPage(s *store, bucket, prefix, delimiter, marker string, limit int) (*gofakes3.ObjectList, error) {
	out := gofakes3.NewObjectList()
	start, more := nextKey(marker), true
	if common := commonPrefix(marker, prefix, delimiter); common == marker && marker != "" {
		start, more = afterPrefix(common) // All keys below the prefix were in the previous page.
	}
	last := ""
	for more {
		more = false
		err := s.eachObject(bucket, prefix, start, func(o object) bool {
			if limit > 0 && len(out.Contents)+len(out.CommonPrefixes) == limit {
				out.IsTruncated, out.NextMarker, more = true, last, false
				return false
			}
			if common := commonPrefix(o.Key, prefix, delimiter); common != "" {
				out.AddPrefix(common)
				last = common
				start, more = afterPrefix(common)
				return false
			}
			out.Add(&gofakes3.Content{
				Key: o.Key, Size: o.SizeBytes, ETag: `"` + o.etag() + `"`, LastModified: gofakes3.NewContentTime(o.UpdatedAt),
			})
			last = o.Key
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// commonPrefix is the part of a key up to the first delimiter behind the prefix, or "" if there is none.
func commonPrefix(key, prefix, delimiter string) string {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok || delimiter == "" {
		return ""
	}
	name, _, found := strings.Cut(rest, delimiter)
	if !found {
		return ""
	}
	return prefix + name + delimiter
}

// afterPrefix returns the start of the keys after all keys with a prefix. There are none after a prefix that consists
// of the highest byte only.
func afterPrefix(prefix string) (start string, more bool) {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1}), true
		}
	}
	return "", false
}

// HeadObject implements [gofakes3.Backend].
func (b *s3Backend) HeadObject(ctx context.Context, bucket, key string) (*gofakes3.Object, error) {
	var o object
	var err error
	b.c.store.view(func() { o, err = b.c.objectOf(callerOf(ctx), bucket, key) })
	if err != nil {
		return nil, libraryError(err, bucket, key)
	}
	return describe(o, http.NoBody), nil
}

func describe(o object, content io.ReadCloser) *gofakes3.Object {
	headers := maps.Clone(o.Headers)
	if headers == nil {
		headers = map[string]string{"Content-Type": "application/octet-stream"}
	}
	headers["Last-Modified"] = o.UpdatedAt.UTC().Format(http.TimeFormat)
	return &gofakes3.Object{
		Name: o.Key, Metadata: headers, Size: o.SizeBytes, Contents: content, Hash: s3.ETagHash(o.etag()),
		PartSizes: o.PartSizes,
	}
}

// section is a part of a file.
type section struct {
	io.Reader
	io.Closer
}

// GetObject implements [gofakes3.Backend].
func (b *s3Backend) GetObject(
	ctx context.Context, bucket, key string, wanted *gofakes3.ObjectRangeRequest,
) (*gofakes3.Object, error) {
	o, file, err := b.c.openObject(callerOf(ctx), bucket, key)
	if err != nil {
		return nil, libraryError(err, bucket, key)
	}
	out := describe(o, file)
	if out.Range, err = wanted.Range(o.SizeBytes); err != nil {
		_ = file.Close()
		return nil, err // Not wrapped, for the library.
	}
	if out.Range != nil {
		out.Contents = section{io.NewSectionReader(file, out.Range.Start, out.Range.Length), file}
	}
	return out, nil
}

// PutObject implements [gofakes3.Backend].
func (b *s3Backend) PutObject(
	ctx context.Context, bucket, key string, headers map[string]string, content io.Reader, _ int64,
) (gofakes3.PutObjectResult, error) {
	o, err := b.c.writeObject(callerOf(ctx), bucket, key, content)
	if err != nil {
		return gofakes3.PutObjectResult{}, libraryError(err, bucket, "")
	}
	o.ETag, o.Headers = o.md5, keptHeaders(headers)
	if name, value := s3.BodyOf(ctx).Checksum(); name != "" {
		o.Headers[name] = value
	}
	if err := b.c.commitObject(callerOf(ctx), &o.object, writeConditions(ctx)); err != nil {
		return gofakes3.PutObjectResult{}, libraryError(err, bucket, "")
	}
	return gofakes3.PutObjectResult{ETag: `"` + o.ETag + `"`}, nil
}

// keptHeaders are the headers that are kept with an object. Its time is the cloud's own.
func keptHeaders(in map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range in {
		if name != "Last-Modified" {
			out[name] = value
		}
	}
	return out
}

// writeConditions returns a check of the object to be replaced against If-Match and If-None-Match of a request. The
// library has checked them before; this check runs while nothing else can change.
func writeConditions(ctx context.Context) func(*object) error {
	if !gofakes3.HasWriteConditions(ctx) {
		return nil
	}
	return func(old *object) error {
		if old == nil {
			return gofakes3.CheckWriteConditions(ctx, false, "")
		}
		return gofakes3.CheckWriteConditions(ctx, true, s3.PackETag(old.etag()))
	}
}

// CopyObject implements [gofakes3.Backend].
func (b *s3Backend) CopyObject(
	ctx context.Context, fromBucket, fromKey, bucket, key string, headers map[string]string,
) (gofakes3.CopyObjectResult, error) {
	_, file, err := b.c.openObject(callerOf(ctx), fromBucket, fromKey)
	if err != nil {
		return gofakes3.CopyObjectResult{}, libraryError(err, fromBucket, fromKey)
	}
	defer file.Close()
	o, err := b.c.writeObject(callerOf(ctx), bucket, key, file)
	if err != nil {
		return gofakes3.CopyObjectResult{}, libraryError(err, bucket, "")
	}
	o.ETag, o.Headers = o.md5, keptHeaders(headers)
	if err := b.c.commitObject(callerOf(ctx), &o.object, nil); err != nil {
		return gofakes3.CopyObjectResult{}, libraryError(err, bucket, "")
	}
	return gofakes3.CopyObjectResult{ETag: `"` + o.ETag + `"`, LastModified: gofakes3.NewContentTime(o.UpdatedAt)}, nil
}

// DeleteObject implements [gofakes3.Backend]. A missing object is fine.
func (b *s3Backend) DeleteObject(ctx context.Context, bucket, key string) (gofakes3.ObjectDeleteResult, error) {
	err := b.c.deleteObjects(callerOf(ctx), bucket, []string{key})
	return gofakes3.ObjectDeleteResult{}, libraryError(err, bucket, "")
}

// DeleteMulti implements [gofakes3.Backend].
func (b *s3Backend) DeleteMulti(ctx context.Context, bucket string, keys ...string) (
	out gofakes3.MultiDeleteResult, err error,
) {
	if err := b.c.deleteObjects(callerOf(ctx), bucket, keys); err != nil {
		return out, libraryError(err, bucket, "")
	}
	for _, key := range keys {
		out.Deleted = append(out.Deleted, gofakes3.ObjectID{Key: key})
	}
	return out, nil
}
