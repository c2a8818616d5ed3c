package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

const (
	// recheckAfter bounds how long changed credentials stay unnoticed. A kubelet takes up to a minute to update a
	// mounted Secret.
	recheckAfter = 10 * time.Second
	// requestTimeout bounds one small request with its retries.
	requestTimeout = 30 * time.Second
	// stallTimeout ends an upload or download that makes no progress.
	stallTimeout = 2 * time.Minute
	// partSize is the smallest that S3 allows for parts of a large object; one is being sent while one is filled.
	partSize = 5 << 20
	// maxClaim bounds the size of a claim, in bytes; it is far more than a claim needs.
	maxClaim = 64 << 10

	contentType = "application/zstd"
	jsonType    = "application/json"
)

// Store is one entry of an object store: the objects below a prefix. It is safe for concurrent use.
type Store struct {
	dir    string
	prefix string
	clock  clock.WithTickerAndDelayedExecution
	// open makes the bucket; tests replace it to inject faults.
	open func(context.Context, credentials, Provider) (*blob.Bucket, error)

	mu       sync.Mutex
	sealed   error
	checked  time.Time
	stamp    string
	current  *blob.Bucket
	creds    credentials
	provider Provider
}

// Open returns the entry below a prefix. Credentials are read by the first call of a method, and again as long as they
// cannot be used: etcd may have to start without its store.
func Open(dir, prefix string, clock clock.WithTickerAndDelayedExecution) (*Store, error) {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" || prefix != path.Clean(prefix) || strings.HasPrefix(prefix, "..") {
		return nil, fmt.Errorf("--prefix: invalid value: %q (such as shoot--dev--a--uid/etcd-main)", prefix)
	}
	return &Store{dir: dir, prefix: prefix + "/", clock: clock, open: openBucket}, nil
}

// Seal makes every later write fail with a reason. Reads still work.
func (s *Store) Seal(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed == nil {
		s.sealed = reason
	}
}

// writable returns the bucket unless the store was sealed.
func (s *Store) writable(ctx context.Context) (*blob.Bucket, func(err error, op string, list bool) error, error) {
	s.mu.Lock()
	sealed := s.sealed
	s.mu.Unlock()
	if sealed != nil {
		return nil, nil, sealed
	}
	return s.bucket(ctx)
}

// Location names the store for people.
func (s *Store) Location() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider == "" {
		return s.dir
	}
	return s.creds.location(s.provider)
}

// bucket returns the bucket with the newest credentials. While changed credentials cannot be used, the last ones stay.
func (s *Store) bucket(ctx context.Context) (*blob.Bucket, func(err error, op string, list bool) error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if age := now.Sub(s.checked); s.current == nil || age >= recheckAfter || age < 0 {
		stamp := fingerprint(s.dir)
		if s.current == nil || stamp != s.stamp {
			if err := s.reload(ctx, stamp); err != nil && s.current == nil {
				return nil, nil, err
			}
		}
		s.checked = now
	}
	creds, location := s.creds, s.creds.location(s.provider)
	return s.current, func(err error, op string, list bool) error { return explain(err, op, location, creds, list) }, nil
}

// reload opens the bucket anew. The old one is not closed: uploads may be using it, and it holds nothing but a few
// connections that end by themselves.
func (s *Store) reload(ctx context.Context, stamp string) error {
	c, err := readCredentials(s.dir)
	if err != nil {
		return &Error{Reason: Misconfigured, Op: "open store", Location: s.dir, detail: err.Error()}
	}
	p, err := c.provider()
	if err != nil {
		return &Error{Reason: Misconfigured, Op: "open store", Location: s.dir, detail: c.scrub(err.Error())}
	}
	b, err := s.open(context.WithoutCancel(ctx), c, p)
	if err != nil {
		if status, _ := answer(err); status != 0 { // A folder that does not exist.
			return explain(err, "open store", c.location(p), c, true)
		}
		return &Error{Reason: Misconfigured, Op: "open store", Location: c.location(p), detail: c.scrub(err.Error())}
	}
	s.current, s.creds, s.provider, s.stamp = b, c, p, stamp
	return nil
}

// Listing is the content below the prefix.
type Listing struct {
	// Objects are all backups, those of old owners too.
	Objects []chain.Object
	Claims  []chain.Claim
	// Branches began when etcd was restored to an earlier point.
	Branches []chain.Branch
}

// Current returns the objects of the owners from which etcd is restored when no point is requested, and the target.
func (l Listing) Current() ([]chain.Object, chain.Target) {
	owned, _ := chain.Owned(l.Objects, l.Claims)
	return chain.Current(owned, l.Branches)
}

// Newest returns the chain that is restored when no point is requested.
func (l Listing) Newest() (chain.Chain, bool) {
	objects, target := l.Current()
	return chain.Select(chain.Build(objects), target)
}

// List reads the names of all backups, and all claims.
func (s *Store) List(ctx context.Context) (Listing, error) {
	b, explain, err := s.bucket(ctx)
	if err != nil {
		return Listing{}, err
	}
	if err = s.readable(); err != nil {
		return Listing{}, explain(err, "list objects", true)
	}
	var found Listing
	var claims []int64
	var branches []string
	objects := b.List(&blob.ListOptions{Prefix: s.prefix})
	for {
		o, err := s.next(ctx, objects)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Listing{}, explain(err, "list objects", true)
		}
		name := strings.TrimPrefix(o.Key, s.prefix)
		if object, ok := chain.ParseName(name); ok {
			object.Size = o.Size
			found.Objects = append(found.Objects, object)
		} else if epoch, ok := chain.ParseClaimName(name); ok {
			claims = append(claims, epoch)
		} else if chain.IsBranchName(name) {
			branches = append(branches, name)
		}
	}
	for _, name := range branches {
		var b chain.Branch
		if err := s.readJSON(ctx, name, &b); err != nil {
			return Listing{}, err
		}
		found.Branches = append(found.Branches, b)
	}
	for _, epoch := range claims {
		c, err := s.ReadClaim(ctx, epoch)
		if err != nil {
			return Listing{}, err
		}
		found.Claims = append(found.Claims, c)
	}
	return found, nil
}

// readable makes sure that a folder can be listed. fileblob skips files that it cannot read, so that a missing or
// unreadable folder would look empty, as if there were no backups.
func (s *Store) readable() error {
	if !s.isFolder() {
		return nil
	}
	s.mu.Lock()
	root := s.creds.folder()
	s.mu.Unlock()
	if _, err := os.ReadDir(root); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(root, filepath.FromSlash(s.prefix)), func(path string, _ fs.DirEntry,
		err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // Nothing was written yet, or it was deleted just now.
		}
		return err
	})
}

// next bounds the time of every page.
func (s *Store) next(ctx context.Context, objects *blob.ListIterator) (*blob.ListObject, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return objects.Next(ctx)
}

// Upload writes a small object from memory.
func (s *Store) Upload(ctx context.Context, name string, data []byte) error {
	return s.put(ctx, name, data, &blob.WriterOptions{ContentType: contentType}, "write "+name)
}

func (s *Store) put(ctx context.Context, name string, data []byte, options *blob.WriterOptions, op string) error {
	b, explain, err := s.writable(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	// The data itself is the only buffer.
	options.BufferSize, options.MaxConcurrency = max(partSize, len(data)), 1
	if err := b.Upload(ctx, s.prefix+name, bytes.NewReader(data), options); err != nil {
		return explain(err, op, false)
	}
	return nil
}

// SetBranch records a branch. It may be recorded again.
func (s *Store) SetBranch(ctx context.Context, b chain.Branch) error {
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode branch: %w", err)
	}
	return s.put(ctx, b.Name(), data, &blob.WriterOptions{ContentType: jsonType}, "record branch")
}

// Create begins an object that is streamed. It exists only after Close of the Upload.
func (s *Store) Create(ctx context.Context, name string) (*Upload, error) {
	b, explain, err := s.writable(ctx)
	if err != nil {
		return nil, err
	}
	u := &Upload{op: "write " + name, explain: explain, store: s}
	ctx, u.cancel = context.WithCancel(ctx)
	u.stall = s.clock.AfterFunc(stallTimeout, u.cancel)
	u.writer, err = b.NewWriter(ctx, s.prefix+name, &blob.WriterOptions{
		ContentType: contentType, BufferSize: partSize, MaxConcurrency: 1, BeforeWrite: u.beforeWrite,
	})
	if err != nil {
		u.cancel()
		return nil, explain(err, u.op, false)
	}
	return u, nil
}

// Open reads an object. Errors of reading are explained like the others.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	b, explain, err := s.bucket(ctx)
	if err != nil {
		return nil, err
	}
	d := &download{op: "read " + name, explain: explain}
	ctx, d.cancel = context.WithCancel(ctx)
	d.stall = s.clock.AfterFunc(stallTimeout, d.cancel)
	if d.reader, err = b.NewReader(ctx, s.prefix+name, nil); err != nil {
		d.cancel()
		return nil, explain(err, d.op, false)
	}
	return d, nil
}

// Delete removes an object; a missing one is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	b, explain, err := s.writable(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := b.Delete(ctx, s.prefix+name); err != nil {
		if err = explain(err, "delete "+name, false); ReasonOf(err) != ObjectMissing {
			return err
		}
	}
	return nil
}
