package images

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// AnnotationName holds the full image name in the layout's index.
const AnnotationName = "org.opencontainers.image.ref.name"

// annotationContainerd does the same for "ctr images import", which takes the other one for a mere tag.
const annotationContainerd = "io.containerd.image.name"

// Store is an OCI image layout with one image per name. It can be read by others at any time: blobs appear complete,
// and the index is replaced in one step.
type Store struct {
	path layout.Path
	// layers remembers the layer made of given files, to skip reading hundreds of megabytes that did not change.
	layers     map[string]v1.Descriptor
	layersFile string
}

// layersLimit bounds the remembered layers; one build uses about ten, so this keeps the last several builds.
const layersLimit = 200

// OpenStore opens or creates the layout. The file of remembered layers lies next to the layout, of which it is no part.
func OpenStore(dir string) (*Store, error) {
	s := &Store{path: layout.Path(dir), layers: map[string]v1.Descriptor{}, layersFile: dir + ".layers.json"}
	if _, err := os.Stat(filepath.Join(dir, "index.json")); errors.Is(err, fs.ErrNotExist) {
		if _, err := layout.Write(dir, empty.Index); err != nil {
			return nil, fmt.Errorf("create image layout %s: %w", dir, err)
		}
	}
	if raw, err := os.ReadFile(s.layersFile); err == nil {
		_ = json.Unmarshal(raw, &s.layers) // Only a cache: without it layers are made again.
	}
	return s, nil
}

// storedLayer is a layer whose blob is already in the layout.
type storedLayer struct {
	descriptor v1.Descriptor
	path       layout.Path
}

func (l storedLayer) Digest() (v1.Hash, error)             { return l.descriptor.Digest, nil }
func (l storedLayer) DiffID() (v1.Hash, error)             { return l.descriptor.Digest, nil } // Not compressed.
func (l storedLayer) Size() (int64, error)                 { return l.descriptor.Size, nil }
func (l storedLayer) MediaType() (types.MediaType, error)  { return l.descriptor.MediaType, nil }
func (l storedLayer) Compressed() (io.ReadCloser, error)   { return l.path.Blob(l.descriptor.Digest) }
func (l storedLayer) Uncompressed() (io.ReadCloser, error) { return l.path.Blob(l.descriptor.Digest) }

// Layer makes the layer with the given entries, or finds the one made of the same files before.
func (s *Store) Layer(entries []Entry) (v1.Layer, error) {
	sorted, err := normalize(entries)
	if err != nil {
		return nil, err
	}
	key, err := layerKey(sorted)
	if err != nil {
		return nil, err
	}
	if descriptor, known := s.layers[key]; known && s.hasBlob(descriptor) {
		return storedLayer{descriptor, s.path}, nil
	}
	descriptor, err := s.writeLayer(sorted)
	if err != nil {
		return nil, err
	}
	if len(s.layers) >= layersLimit {
		clear(s.layers)
	}
	s.layers[key] = descriptor
	raw, err := json.MarshalIndent(s.layers, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode remembered layers: %w", err)
	}
	if err := replaceFile(s.layersFile, raw); err != nil {
		return nil, fmt.Errorf("remember layer: %w", err)
	}
	return storedLayer{descriptor, s.path}, nil
}

// layerKey identifies what a layer is made of: sources by path, size, change time and inode, everything else by
// content.
func layerKey(sorted []Entry) (string, error) {
	h := sha256.New()
	for _, e := range sorted {
		raw, err := json.Marshal(e)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s\n", raw)
		if e.Source == "" {
			continue
		}
		info, err := os.Stat(e.Source)
		if err != nil {
			return "", fmt.Errorf("add %s to layer: %w", e.Path, err)
		}
		var inode uint64
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = st.Ino
		}
		fmt.Fprintf(h, "%d %d %d\n", info.Size(), info.ModTime().UnixNano(), inode)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (s *Store) blobFile(digest v1.Hash) string {
	return filepath.Join(string(s.path), "blobs", digest.Algorithm, digest.Hex)
}

func (s *Store) hasBlob(d v1.Descriptor) bool {
	info, err := os.Stat(s.blobFile(d.Digest))
	return err == nil && info.Size() == d.Size
}

func (s *Store) writeLayer(sorted []Entry) (v1.Descriptor, error) {
	blobs := filepath.Join(string(s.path), "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return v1.Descriptor{}, fmt.Errorf("create blob folder: %w", err)
	}
	f, err := os.CreateTemp(blobs, scratchPrefix)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("create layer: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	h := sha256.New()
	if err := writeTar(io.MultiWriter(f, h), sorted); err != nil {
		return v1.Descriptor{}, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if err := errors.Join(f.Chmod(0o644), f.Close()); err != nil {
		return v1.Descriptor{}, fmt.Errorf("write layer: %w", err)
	}
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
	if err := os.Rename(f.Name(), s.blobFile(digest)); err != nil {
		return v1.Descriptor{}, fmt.Errorf("write layer: %w", err)
	}
	return v1.Descriptor{MediaType: types.OCIUncompressedLayer, Digest: digest, Size: size}, nil
}

// Put stores the image under the name and reports whether that changed anything.
func (s *Store) Put(name string, img v1.Image) (changed bool, err error) {
	descriptor, err := partial.Descriptor(img)
	if err != nil {
		return false, fmt.Errorf("describe image %s: %w", name, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return false, fmt.Errorf("describe image %s: %w", name, err)
	}
	descriptor.ArtifactType = "" // Only for artifacts that are not container images.
	descriptor.Platform = config.Platform()
	descriptor.Annotations = map[string]string{AnnotationName: name, annotationContainerd: name}

	index, err := s.index()
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(index.Manifests, func(d v1.Descriptor) bool { return d.Annotations[AnnotationName] == name })
	switch {
	case at < 0:
		index.Manifests = append(index.Manifests, *descriptor)
	case reflect.DeepEqual(index.Manifests[at], *descriptor) && s.hasBlob(*descriptor):
		return false, nil
	default:
		index.Manifests[at] = *descriptor
	}
	slices.SortFunc(index.Manifests, func(a, b v1.Descriptor) int {
		return strings.Compare(a.Annotations[AnnotationName], b.Annotations[AnnotationName])
	})
	// Blobs first: the index must never name what is not there.
	if err := s.path.WriteImage(img); err != nil {
		return false, fmt.Errorf("write image %s: %w", name, err)
	}
	raw, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return false, fmt.Errorf("encode index: %w", err)
	}
	if err := replaceFile(filepath.Join(string(s.path), "index.json"), raw); err != nil {
		return false, fmt.Errorf("write index: %w", err)
	}
	return true, nil
}

func (s *Store) index() (*v1.IndexManifest, error) {
	index, err := s.path.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return manifest, nil
}

// Stored is an image of the layout.
type Stored struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Bytes is the sum of the layers' sizes; images share some layers.
	Bytes  int64 `json:"bytes"`
	Layers int   `json:"layers"`
}

// List returns the images sorted by name.
func (s *Store) List() ([]Stored, error) {
	index, err := s.index()
	if err != nil {
		return nil, err
	}
	all := []Stored{}
	for _, d := range index.Manifests {
		img, err := s.path.Image(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("read image %s: %w", d.Annotations[AnnotationName], err)
		}
		manifest, err := img.Manifest()
		if err != nil {
			return nil, fmt.Errorf("read image %s: %w", d.Annotations[AnnotationName], err)
		}
		stored := Stored{Name: d.Annotations[AnnotationName], Digest: d.Digest.String(), Layers: len(manifest.Layers)}
		for _, l := range manifest.Layers {
			stored.Bytes += l.Size
		}
		all = append(all, stored)
	}
	return all, nil
}

// Digest returns the digest of an image in the layout. Together with the name it refers to exactly this content, which
// a tag that is built again and again does not.
func Digest(artifacts, name string) (string, error) {
	index, err := (&Store{path: layout.Path(LayoutDir(artifacts))}).index()
	if err != nil {
		return "", err
	}
	for _, d := range index.Manifests {
		if d.Annotations[AnnotationName] == name {
			return d.Digest.String(), nil
		}
	}
	return "", fmt.Errorf("image %s is not built", name)
}

// scratchPrefix marks files being written; it is no digest, so no client requests them.
const scratchPrefix = ".writing-"

// Prune removes blobs that no image uses and that are older than the given age. The age spares what another process is
// writing, and readers that have a replaced manifest but not all its layers yet.
func (s *Store) Prune(age time.Duration, now time.Time) error {
	index, err := s.index()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, d := range index.Manifests {
		used[d.Digest.Hex] = true
		img, err := s.path.Image(d.Digest)
		if err != nil {
			return fmt.Errorf("read image %s: %w", d.Annotations[AnnotationName], err)
		}
		manifest, err := img.Manifest()
		if err != nil {
			return fmt.Errorf("read image %s: %w", d.Annotations[AnnotationName], err)
		}
		used[manifest.Config.Digest.Hex] = true
		for _, l := range manifest.Layers {
			used[l.Digest.Hex] = true
		}
	}
	blobs := filepath.Join(string(s.path), "blobs", "sha256")
	files, err := os.ReadDir(blobs)
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || used[f.Name()] || now.Sub(info.ModTime()) < age {
			continue
		}
		if err := os.Remove(filepath.Join(blobs, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove unused blob: %w", err)
		}
	}
	return nil
}

// replaceFile writes in one step, so that readers see the old or the new content.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), scratchPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
