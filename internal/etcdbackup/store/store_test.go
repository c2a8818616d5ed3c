package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

const secret = "very-secret-key-of-mine"

// secretDir writes credentials as the kubelet does: files are links into a folder that is replaced as a whole.
func secretDir(t testing.TB, dir string, values map[string]string) {
	t.Helper()
	version, err := os.MkdirTemp(dir, "..version")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range values {
		if err := os.WriteFile(filepath.Join(version, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(filepath.Join("..data", key), filepath.Join(dir, key))
	}
	if err := os.Symlink(filepath.Base(version), filepath.Join(dir, "..new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func s3Values(endpoint string) map[string]string {
	return map[string]string{"accessKeyID": "ABCDEFGH", "secretAccessKey": secret, "bucketName": "b",
		"endpoint": endpoint, "s3ForcePathStyle": "true"}
}

func TestProviderIsDetected(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]string
		want   string
	}{
		"S3":  {map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "bucketName": "c"}, "S3"},
		"GCS": {map[string]string{"serviceaccount.json": "{}", "bucketName": "c"}, "Google Cloud Storage"},
		"Azure": {map[string]string{"storageAccount": "a", "storageKey": "b", "bucketName": "c"},
			"Azure Blob Storage"},
		"a folder":   {map[string]string{"path": "/a"}, "folder"},
		"nothing":    {nil, "no credentials found"},
		"half of S3": {map[string]string{"accessKeyID": "a", "bucketName": "c"}, "secretAccessKey: required value"},
		"several": {map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "path": "/a"},
			"credentials of several providers: accessKeyID, path"},
		"no name for a S3": {map[string]string{"accessKeyID": "a", "secretAccessKey": "b"}, "bucketName: required value"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := credentials{dir: "d", values: tc.values}.provider()
			if got := string(p) + fmt.Sprint(err); !strings.Contains(got, tc.want) {
				t.Errorf("provider = %q, %v, want %q", p, err, tc.want)
			}
		})
	}
}

func TestErrorsAreExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		code   string
		want   Reason
	}{
		"wrong keys":      {http.StatusForbidden, "SignatureDoesNotMatch", Refused},
		"unknown key":     {http.StatusForbidden, "InvalidAccessKeyId", Refused},
		"no bucket":       {http.StatusNotFound, "NoSuchBucket", BucketMissing},
		"another region":  {http.StatusMovedPermanently, "PermanentRedirect", BucketMissing},
		"invalid request": {http.StatusBadRequest, "InvalidRequest", Failed},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tc.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>key %s of %s</Message></Error>", tc.code, secret, r.URL)
			}))
			defer server.Close()
			checkError(t, server.URL, tc.want)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		checkError(t, server.URL, Unreachable)
	})
	t.Run("unknown authority", func(t *testing.T) {
		server := httptest.NewTLSServer(nil)
		server.Config.ErrorLog = nil
		defer server.Close()
		if err := checkError(t, server.URL, Unreachable); !strings.Contains(err.Error(), "trustedCaCert") {
			t.Errorf("no advice: %v", err)
		}
	})
}

func checkError(t *testing.T, endpoint string, want Reason) error {
	t.Helper()
	dir := t.TempDir()
	secretDir(t, dir, s3Values(endpoint))
	s, err := Open(dir, "p", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.List(context.Background())
	if ReasonOf(err) != want {
		t.Errorf("List: %v (%s), want %s", err, ReasonOf(err), want)
	}
	if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "ABCDEFGH") ||
		!strings.Contains(err.Error(), endpoint) {
		t.Errorf("the message is not readable: %v", err)
	}
	return err
}

// s3Server implements the used part of S3: path style, no checksums, conditional writes.
type s3Server struct {
	mu      sync.Mutex
	objects map[string][]byte
	ignore  bool // It ignores conditions.
	keys    []string
}

func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, r.Header.Get("Authorization"))
	key := strings.TrimPrefix(r.URL.Path, "/b/")
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		var names []string
		for name := range s.objects {
			if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		fmt.Fprint(w, "<ListBucketResult>")
		for _, name := range names {
			fmt.Fprintf(w,
				"<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>x</ETag></Contents>",
				name, len(s.objects[name]))
		}
		fmt.Fprint(w, "</ListBucketResult>")
	case r.Method == http.MethodPut:
		for _, h := range []string{"X-Amz-Checksum-Crc32", "X-Amz-Trailer", "X-Amz-Sdk-Checksum-Algorithm"} {
			if r.Header.Get(h) != "" {
				http.Error(w, "<Error><Code>NotImplemented</Code></Error>", http.StatusNotImplemented)
				return
			}
		}
		data, _ := io.ReadAll(r.Body)
		if _, exists := s.objects[key]; exists && r.Header.Get("If-None-Match") == "*" && !s.ignore {
			http.Error(w, "<Error><Code>PreconditionFailed</Code></Error>", http.StatusPreconditionFailed)
			return
		}
		s.objects[key] = data
	case r.Method == http.MethodGet:
		data, exists := s.objects[key]
		if !exists {
			http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	}
}

func TestStores(t *testing.T) {
	for name, values := range map[string]func(*testing.T) map[string]string{
		"folder": func(t *testing.T) map[string]string { return map[string]string{"path": t.TempDir()} },
		"S3": func(t *testing.T) map[string]string {
			server := httptest.NewServer(&s3Server{objects: map[string][]byte{}})
			t.Cleanup(server.Close)
			return s3Values(server.URL)
		},
		"Google Cloud Storage": googleValues,
		"Azure Blob Storage":   azureValues,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			secretDir(t, dir, values(t))
			s, err := Open(dir, "p/q", clock.RealClock{})
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			small := chain.Object{Epoch: 1, Kind: chain.Delta, First: 2, Last: 3, Created: time.UnixMilli(1e12).UTC(), Size: 5}
			full := chain.Object{Epoch: 1, Kind: chain.Full, First: 1, Last: 1, Created: time.UnixMilli(1e12).UTC(),
				Size: 100 << 10}
			if err := s.Upload(ctx, small.Name(), []byte("small")); err != nil {
				t.Fatal(err)
			}
			u, err := s.Create(ctx, full.Name())
			if err != nil {
				t.Fatal(err)
			}
			if _, err = u.Write(make([]byte, full.Size)); err == nil {
				err = u.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			u, err = s.Create(ctx, "given-up")
			if err == nil {
				_, err = u.Write([]byte("x"))
				u.Abort()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Open(ctx, "given-up"); ReasonOf(err) != ObjectMissing {
				t.Errorf("an aborted object: %v", err)
			}
			r, err := s.Open(ctx, small.Name())
			if err != nil {
				t.Fatal(err)
			}
			if data, err := io.ReadAll(r); err != nil || string(data) != "small" {
				t.Errorf("read %q, %v", data, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			claims(t, s)
			l, err := s.List(ctx)
			if err != nil || !slices.Equal(l.Objects, []chain.Object{full, small}) || len(l.Claims) != 2 {
				t.Errorf("listing %+v, %v", l, err)
			}
			for range 2 {
				if err := s.Delete(ctx, full.Name()); err != nil {
					t.Error(err)
				}
			}
			if v, err := s.Verified(ctx); v != nil || err != nil {
				t.Errorf("verified %v, %v", v, err)
			}
			if err := s.SetVerified(ctx, Verification{Full: full, Keys: 3}); err != nil {
				t.Error(err)
			}
			if v, err := s.Verified(ctx); err != nil || v.Full.Name() != full.Name() || v.Keys != 3 {
				t.Errorf("verified %v, %v", v, err)
			}
		})
	}
}

func claims(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	first, err := s.Claim(ctx, chain.Claim{Epoch: 2, Holder: "a", Nonce: "1"})
	if err != nil || first.Holder != "a" {
		t.Errorf("claim %+v, %v", first, err)
	}
	if second, err := s.Claim(ctx, chain.Claim{Epoch: 2, Holder: "b", Nonce: "2"}); err != nil || second.Holder != "a" {
		t.Errorf("second claim %+v, %v", second, err)
	}
	for epoch, want := range map[int64]bool{1: true, 2: true, 3: false} {
		if got, err := s.Claimed(ctx, epoch); got != want || err != nil {
			t.Errorf("epoch %d is claimed: %t, %v", epoch, got, err)
		}
	}
}

func TestChangedCredentialsAreUsed(t *testing.T) {
	fake := &s3Server{objects: map[string][]byte{}}
	server := httptest.NewServer(fake)
	defer server.Close()
	dir := t.TempDir()
	values := s3Values(server.URL)
	secretDir(t, dir, values)
	moving := &steppingClock{clock.RealClock{}, clocktesting.NewFakePassiveClock(time.Now())}
	s, err := Open(dir, "p", moving)
	if err != nil {
		t.Fatal(err)
	}
	used := func() string {
		if _, err := s.List(context.Background()); err != nil {
			t.Fatal(err)
		}
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return fake.keys[len(fake.keys)-1]
	}
	if k := used(); !strings.Contains(k, "ABCDEFGH") {
		t.Errorf("used %q", k)
	}
	values["accessKeyID"] = "NEWNEWNEW"
	secretDir(t, dir, values)
	moving.SetTime(moving.Now().Add(recheckAfter))
	if k := used(); !strings.Contains(k, "NEWNEWNEW") {
		t.Errorf("used %q after the change", k)
	}
	secretDir(t, dir, map[string]string{"accessKeyID": ""}) // Halfway through a change.
	moving.SetTime(moving.Now().Add(recheckAfter))
	if k := used(); !strings.Contains(k, "NEWNEWNEW") {
		t.Errorf("used %q while the credentials are unusable", k)
	}
}

// steppingClock has real timers and a fake time.
type steppingClock struct {
	clock.RealClock
	*clocktesting.FakePassiveClock
}

func (c *steppingClock) Now() time.Time                  { return c.FakePassiveClock.Now() }
func (c *steppingClock) Since(t time.Time) time.Duration { return c.FakePassiveClock.Since(t) }

func TestOpenRefusesPrefixes(t *testing.T) {
	for _, prefix := range []string{"", "/", "..", "a/../b", "../a"} {
		if _, err := Open(t.TempDir(), prefix, clock.RealClock{}); err == nil || !strings.Contains(err.Error(), "--prefix") {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

func TestFolderThatIsGoneIsNotEmpty(t *testing.T) {
	dir, folder := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	secretDir(t, dir, map[string]string{"path": folder})
	s, err := Open(dir, "p", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(context.Background()); ReasonOf(err) != BucketMissing {
		t.Errorf("a folder that does not exist yet: %v", err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if l, err := s.List(context.Background()); err != nil || len(l.Objects) > 0 {
		t.Errorf("an empty folder: %v, %v", l, err)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(context.Background()); ReasonOf(err) != BucketMissing {
		t.Errorf("a deleted folder: %v", err)
	}
}
