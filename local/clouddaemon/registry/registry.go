// Package registry serves an OCI image layout as a read-only image registry (OCI distribution specification, pull
// only).
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Registry reads an OCI image layout whose index names images by the annotation org.opencontainers.image.ref.name, with
// full names such as registry.k8s.io/pause:3.10.1. The index is read again when it changes.
type Registry struct {
	// Make makes a missing image, given by its full name. It returns when the image is in the layout, or an error. It
	// continues to make the image when the context has ended. Nil means that no images are made.
	Make func(ctx context.Context, name string) error

	dir string

	mu       sync.Mutex
	modified time.Time
	byName   map[string]ocispec.Descriptor
}

// ErrUnknown is the error of Make for images that it cannot make.
var ErrUnknown = errors.New("unknown image")

// New returns a Registry of the layout in dir, which may appear later.
func New(dir string) *Registry { return &Registry{dir: dir} }

// Images returns the descriptors of all images by their full names.
func (r *Registry) Images() (map[string]ocispec.Descriptor, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.dir, ocispec.ImageIndexFile)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return map[string]ocispec.Descriptor{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read image layout: %w", err)
	}
	if r.byName != nil && info.ModTime().Equal(r.modified) {
		return r.byName, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read image layout: %w", err)
	}
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("parse image layout %s: %w", path, err)
	}
	byName := map[string]ocispec.Descriptor{}
	for _, m := range index.Manifests {
		if name := m.Annotations[ocispec.AnnotationRefName]; name != "" {
			byName[name] = m
		}
	}
	r.byName, r.modified = byName, info.ModTime()
	return byName, nil
}

// BlobPath returns the path of a blob.
func (r *Registry) BlobPath(digest string) string {
	algorithm, hex, _ := strings.Cut(digest, ":")
	return filepath.Join(r.dir, ocispec.ImageBlobsDir, algorithm, hex)
}

// Prepare begins to make an image, given by its full name, unless it is there. It does not wait: notYet is the reason
// why the image cannot be pulled yet, nil if it can. The error is [ErrUnknown] if the image cannot be made.
func (r *Registry) Prepare(name string) (notYet, err error) {
	images, err := r.Images()
	if err != nil {
		return nil, err
	}
	if _, ok := images[name]; ok {
		return nil, nil
	}
	if r.Make == nil {
		return nil, ErrUnknown
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Make(ended, name); errors.Is(err, ErrUnknown) {
		return nil, err
	} else if err != nil {
		return err, nil
	}
	return nil, nil
}

var (
	route         = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+)$`)
	digestPattern = regexp.MustCompile(`^[a-z0-9]+:[a-f0-9]{32,}$`)
)

// ServeHTTP answers /v2/, manifests and blobs.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "the registry is read-only")
		return
	}
	if req.URL.Path == "/v2/" || req.URL.Path == "/v2" {
		w.WriteHeader(http.StatusOK)
		return
	}
	m := route.FindStringSubmatch(req.URL.Path)
	if m == nil {
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", "no such path")
		return
	}
	name, kind, reference := m[1], m[2], m[3]
	if kind == "blobs" || digestPattern.MatchString(reference) {
		if !digestPattern.MatchString(reference) {
			fail(w, http.StatusBadRequest, "DIGEST_INVALID", "invalid digest")
			return
		}
		r.serveBlob(w, req, reference, kind)
		return
	}
	images, err := r.Images()
	if err != nil {
		fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
	}
	ns := req.URL.Query().Get("ns")
	d, ok := find(images, ns, name, reference)
	if !ok && r.Make != nil {
		if err := r.Make(req.Context(), strings.TrimPrefix(ns+"/"+name+":"+reference, "/")); err == nil {
			if images, err = r.Images(); err == nil {
				d, ok = find(images, ns, name, reference)
			}
		} else if !errors.Is(err, ErrUnknown) {
			notYet(w, req, err.Error())
			return
		}
	}
	if !ok {
		fail(w, http.StatusNotFound, "MANIFEST_UNKNOWN", fmt.Sprintf("no image %s:%s", name, reference))
		return
	}
	r.serveBlob(w, req, d.Digest.String(), kind)
}

// find looks an image up. containerd requests "<path>:<tag>" from a mirror and passes the registry host as ns; others
// put the host into the path or leave it out, and get the image if exactly one matches.
func find(images map[string]ocispec.Descriptor, ns, name, tag string) (ocispec.Descriptor, bool) {
	for _, full := range []string{ns + "/" + name + ":" + tag, name + ":" + tag} {
		if d, ok := images[full]; ok {
			return d, true
		}
	}
	var found []ocispec.Descriptor
	for full, d := range images {
		if ns == "" && strings.HasSuffix(full, "/"+name+":"+tag) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return ocispec.Descriptor{}, false
	}
	return found[0], true
}

func (r *Registry) serveBlob(w http.ResponseWriter, req *http.Request, digest, kind string) {
	f, err := os.Open(r.BlobPath(digest))
	if err != nil {
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "no blob "+digest)
		return
	}
	defer f.Close()
	contentType := "application/octet-stream"
	if kind == "manifests" {
		var header struct {
			MediaType string `json:"mediaType"`
		}
		if err := json.NewDecoder(f).Decode(&header); err != nil {
			fail(w, http.StatusInternalServerError, "MANIFEST_INVALID", "no manifest: "+digest)
			return
		}
		if contentType = header.MediaType; contentType == "" {
			contentType = ocispec.MediaTypeImageManifest
		}
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Etag", `"`+digest+`"`)
	http.ServeContent(w, req, "", time.Time{}, f)
}

// Refuse answers a request that came without valid credentials.
func Refuse(w http.ResponseWriter, message string) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	fail(w, http.StatusUnauthorized, "UNAUTHORIZED", message)
}

// notYet responds that the pull is to be retried later, with the reason. Container runtimes show only the status line
// of such a response and nothing of its body, so the reason is in both. HTTP/2 has no reason in its status; its clients
// get it in the body only.
func notYet(w http.ResponseWriter, req *http.Request, why string) {
	connection, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, http.StatusServiceUnavailable, "UNAVAILABLE", why)
		return
	}
	defer connection.Close()
	body := errorBody("UNAVAILABLE", why)
	if req.Method == http.MethodHead {
		body = nil
	}
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, why)
	fmt.Fprintf(buffered,
		"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		http.StatusServiceUnavailable, line, len(body), body)
	_ = buffered.Flush() // A client that has disconnected retries.
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(errorBody(code, message))
}

// errorBody returns an error body of the OCI distribution specification.
func errorBody(code, message string) []byte {
	body, err := json.Marshal(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
	if err != nil {
		panic(err) // Strings alone can be encoded.
	}
	return append(body, '\n')
}
