package release

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"hortus.dev/hortus/internal/image"
)

// repository of the image, in the names of which releases are tags.
var repository = strings.SplitN(image.Hortus(), ":", 2)[0]

const (
	annotationVersion  = "org.opencontainers.image.version"
	annotationRevision = "org.opencontainers.image.revision"
	annotationName     = "org.opencontainers.image.ref.name"
	// annotationContainerd is the full name for `ctr images import`.
	annotationContainerd = "io.containerd.image.name"
)

// writeImage writes the image as an archive with an OCI image layout, and returns the digest of its index.
func writeImage(o Options, built map[string]map[string]string) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, name := range Platforms {
		goos, arch, _ := strings.Cut(name, "/")
		platform := v1.Platform{OS: goos, Architecture: arch}
		img, err := imageFor(o, platform, built[name])
		if err != nil {
			return "", fmt.Errorf("image for %s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &platform, MediaType: types.OCIManifestSchema1},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	folder, err := os.MkdirTemp("", "hortus-release-")
	if err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // A temporary folder.
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", fmt.Errorf("write image: %w", err)
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		annotationName: o.Version, annotationContainerd: o.reference(),
	})); err != nil {
		return "", fmt.Errorf("write image: %w", err)
	}
	file := filepath.Join(o.Output, "hortus-"+o.Version+"-image.tar")
	return digest.String(), archive(folder, file)
}

func imageFor(o Options, platform v1.Platform, programs map[string]string) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	labels := map[string]string{annotationVersion: o.Version, annotationRevision: o.Source.Commit}
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Created: v1.Time{Time: o.Source.Time},
		Config: v1.Config{
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"/" + image.HortusFolder + "/hortus"}, WorkingDir: "/", Labels: labels,
		},
	})
	if err != nil {
		return nil, err
	}
	for i, names := range image.HortusLayers {
		content, err := layerOf(names, programs, i == len(image.HortusLayers)-1)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: o.Source.Time}, Comment: strings.Join(names, ", ")},
		}); err != nil {
			return nil, err
		}
	}
	return mutate.Annotations(img, labels).(v1.Image), nil
}

// layerOf is a layer with programs; the last one also has a folder for temporary files.
func layerOf(names []string, programs map[string]string, last bool) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		data, err := os.ReadFile(programs[name])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: image.HortusFolder + "/" + name, Mode: 0o755, Size: int64(len(data)),
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if last {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

// archive packs a folder without times and owners.
func archive(folder, file string) (err error) {
	var names []string
	if err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, path)
		}
		return err
	}); err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	slices.Sort(names)
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		inside, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: inside, Mode: 0o644, Size: int64(len(data))}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		if _, err := w.Write(data); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
