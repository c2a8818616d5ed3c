package clouddaemon

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rclone/gofakes3"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/s3"
)

const (
	// uploadsDir has a directory for each upload, with a file for each part. Uploads end with the daemon: the library's
	// list of them is in memory, so clients get NoSuchUpload and begin again.
	uploadsDir = "uploads"
	// uploadLife is how long an upload may take; then it counts as abandoned. It is what users of S3 usually configure.
	uploadLife = 7 * 24 * time.Hour
)

// uploads are the objects that are being uploaded in parts.
type uploads struct {
	mu   sync.Mutex
	byID map[gofakes3.UploadID]*upload
}

// upload is one object that is being uploaded in parts.
type upload struct {
	id          gofakes3.UploadID
	owner       caller
	bucket, key string
	headers     map[string]string
	begun       time.Time

	mu    sync.Mutex // Held while parts are put together; the parts themselves arrive without it.
	parts map[int]part
	ended bool
	etag  string // Of the object, when it has been put together.
}

// part is a piece of an object, in a file of its own.
type part struct {
	file string
	size int64
	md5  []byte
}

func (c *Cloud) uploadOf(ctx context.Context, bucket, key string, id gofakes3.UploadID) (*upload, error) {
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	u, ok := c.uploads.byID[id]
	if !ok || u.bucket != bucket || u.key != key || u.owner.account != callerOf(ctx).account {
		return nil, gofakes3.ErrNoSuchUpload
	}
	return u, nil
}

// endUpload forgets an upload and removes its parts. The caller holds the lock of the upload.
func (c *Cloud) endUpload(u *upload) error {
	u.ended = true
	c.uploads.mu.Lock()
	delete(c.uploads.byID, u.id)
	c.uploads.mu.Unlock()
	if err := os.RemoveAll(c.path(uploadsDir, string(u.id))); err != nil {
		return fmt.Errorf("remove parts of upload %s: %w", u.id, err)
	}
	return nil
}

// dropUploads ends the uploads that match, on the cloud's own account.
func (c *Cloud) dropUploads(match func(*upload) bool) {
	var dropped []*upload
	c.uploads.mu.Lock()
	for _, u := range c.uploads.byID {
		if match(u) {
			dropped = append(dropped, u)
		}
	}
	c.uploads.mu.Unlock()
	for _, u := range dropped {
		u.mu.Lock()
		err := c.endUpload(u)
		u.mu.Unlock()
		_ = c.s3.ForgetMultipartUpload(withCaller(context.Background(), u.owner), u.bucket, u.key, u.id) // It may have ended.
		if err != nil {
			c.log.Error("Dropping an upload failed", "bucket", u.bucket, "key", u.key, "error", err)
		}
	}
}

// CreateMultipartUpload implements [gofakes3.MultipartBackend].
func (b *s3Backend) CreateMultipartUpload(ctx context.Context, bucket, key string, headers map[string]string) (
	gofakes3.UploadID, error,
) {
	if err := checkObjectKey(key); err != nil {
		return "", libraryError(err, bucket, "")
	}
	now := b.c.clock.Now()
	b.c.dropUploads(func(u *upload) bool { return now.Sub(u.begun) > uploadLife })
	u := &upload{
		id: gofakes3.UploadID(rand.Text()), owner: callerOf(ctx), bucket: bucket, key: key, headers: keptHeaders(headers),
		begun: now, parts: map[int]part{},
	}
	if err := os.MkdirAll(b.c.path(uploadsDir, string(u.id)), 0o700); err != nil {
		return "", fmt.Errorf("make directory of upload: %w", err)
	}
	b.c.uploads.mu.Lock()
	defer b.c.uploads.mu.Unlock()
	if b.c.uploads.byID == nil {
		b.c.uploads.byID = map[gofakes3.UploadID]*upload{}
	}
	b.c.uploads.byID[u.id] = u
	return u.id, nil
}

// UploadPart implements [gofakes3.MultipartBackend].
func (b *s3Backend) UploadPart(
	ctx context.Context, bucket, key string, id gofakes3.UploadID, number int, size int64, content io.Reader,
) (etag string, err error) {
	u, err := b.c.uploadOf(ctx, bucket, key, id)
	if err != nil {
		return "", err
	}
	dir, sum := b.c.path(uploadsDir, string(id)), md5.New()
	file, written, err := b.c.writeContent(dir, fmt.Sprintf("part-%d-", number), io.TeeReader(content, sum))
	if errors.Is(err, os.ErrNotExist) { // The upload was aborted or completed.
		return "", gofakes3.ErrNoSuchUpload
	}
	if err != nil {
		return "", libraryError(err, bucket, "")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended || written != size {
		err := error(gofakes3.ErrIncompleteBody)
		if u.ended {
			err = gofakes3.ErrNoSuchUpload
		}
		_ = os.Remove(b.c.path(uploadsDir, string(id), file)) // It is removed with the upload at the latest.
		return "", err
	}
	if old, ok := u.parts[number]; ok {
		_ = os.Remove(b.c.path(uploadsDir, string(id), old.file)) // It is removed with the upload at the latest.
	}
	u.parts[number] = part{file: file, size: size, md5: sum.Sum(nil)}
	return quotedHash(u.parts[number].md5), nil
}

func quotedHash(sum []byte) string { return `"` + hex.EncodeToString(sum) + `"` }

// CompleteMultipartUpload implements [gofakes3.MultipartBackend]. The parts are put together before the object
// appears, so a condition is checked at the very end, and of several uploads that must not replace an object one
// succeeds.
func (b *s3Backend) CompleteMultipartUpload(
	ctx context.Context, bucket, key string, id gofakes3.UploadID, in *gofakes3.CompleteMultipartUploadRequest,
) (gofakes3.VersionID, string, error) {
	u, err := b.c.uploadOf(ctx, bucket, key, id)
	if err != nil {
		return "", "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.etag != "": // A concurrent request has completed it.
		return "", u.etag, nil
	case u.ended:
		return "", "", gofakes3.ErrNoSuchUpload
	}
	parts, err := chosenParts(u.parts, in.Parts)
	if err != nil {
		return "", "", err
	}
	o, err := b.c.joinParts(u, parts)
	if err != nil {
		return "", "", libraryError(err, bucket, "")
	}
	if err := b.c.commitObject(callerOf(ctx), &o, writeConditions(ctx)); err != nil {
		return "", "", libraryError(err, bucket, "")
	}
	u.etag = `"` + o.ETag + `"`
	if err := b.c.endUpload(u); err != nil { // The object is stored, and the next start removes the parts.
		b.c.log.Error("Removing the parts of an object failed", "bucket", bucket, "key", key, "error", err)
	}
	return "", u.etag, nil
}

// chosenParts are the parts a client wants its object to have.
func chosenParts(have map[int]part, wanted []gofakes3.CompletedPart) ([]part, error) {
	if len(wanted) == 0 {
		return nil, gofakes3.ErrorMessage(gofakes3.ErrMalformedXML, "an object needs at least one part")
	}
	var out []part
	for i, w := range wanted {
		if i > 0 && w.PartNumber <= wanted[i-1].PartNumber {
			return nil, gofakes3.ErrInvalidPartOrder
		}
		p, ok := have[w.PartNumber]
		if !ok || strings.Trim(w.ETag, `"`) != hex.EncodeToString(p.md5) {
			return nil, gofakes3.ErrorMessagef(gofakes3.ErrInvalidPart, "part %d was not uploaded with entity tag %s",
				w.PartNumber, w.ETag)
		}
		out = append(out, p)
	}
	return out, nil
}

// joinParts writes the content of an object, one part after the other.
func (c *Cloud) joinParts(u *upload, parts []part) (object, error) {
	dir := c.path("buckets", u.bucket)
	if _, err := c.getBucket(u.owner, u.bucket); err != nil {
		return object{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return object{}, fmt.Errorf("make directory of bucket %q: %w", u.bucket, err)
	}
	content, hashes, sum := &partsReader{}, md5.New(), sha256.New()
	var sizes []int64
	for _, p := range parts {
		_, _ = hashes.Write(p.md5) // Never fails.
		sizes = append(sizes, p.size)
		content.files = append(content.files, c.path(uploadsDir, string(u.id), p.file))
	}
	file, size, err := c.writeContent(dir, "object-", io.TeeReader(content, sum))
	if err = errors.Join(err, content.close()); err != nil {
		return object{}, err
	}
	return object{
		Object: api.Object{Key: u.key, SizeBytes: size, SHA256: hex.EncodeToString(sum.Sum(nil))},
		Bucket: u.bucket, File: file, ETag: s3.PartsETag(hashes.Sum(nil), len(parts)), PartSizes: sizes, Headers: u.headers,
	}, nil
}

// partsReader reads files one after the other, one open at a time.
type partsReader struct {
	files []string
	open  *os.File
}

// Read implements [io.Reader].
func (r *partsReader) Read(p []byte) (int, error) {
	for {
		if r.open == nil {
			if len(r.files) == 0 {
				return 0, io.EOF
			}
			f, err := os.Open(r.files[0])
			if err != nil {
				return 0, err
			}
			r.open, r.files = f, r.files[1:]
		}
		n, err := r.open.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := r.close(); err != nil {
			return 0, err
		}
	}
}

func (r *partsReader) close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}

// AbortMultipartUpload implements [gofakes3.MultipartBackend].
func (b *s3Backend) AbortMultipartUpload(ctx context.Context, bucket, key string, id gofakes3.UploadID) error {
	u, err := b.c.uploadOf(ctx, bucket, key, id)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return b.c.endUpload(u)
}
