//go:build linux

package container

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ensureImage imports an image from the layout and unpacks it, unless containerd has that very image.
func (d *Driver) ensureImage(ctx context.Context, name string) (containerd.Image, error) {
	d.importing.Lock()
	defer d.importing.Unlock()
	ctx = d.context(ctx)
	known, err := d.opts.Layout.Images()
	if err != nil {
		return nil, err
	}
	want, offered := known[name]
	image, err := d.client.GetImage(ctx, name)
	switch {
	case err == nil && (!offered || image.Target().Digest == want.Digest): // Instances outlive images on offer.
		return image, d.unpack(ctx, image)
	case err != nil && !errdefs.IsNotFound(err):
		return nil, fmt.Errorf("look up image %q: %w", name, err)
	case !offered:
		return nil, fmt.Errorf("image: not found: %q in the image layout", name)
	}
	if err := d.importImage(ctx, name, want); err != nil {
		return nil, fmt.Errorf("import image %q: %w", name, err)
	}
	if image, err = d.client.GetImage(ctx, name); err != nil {
		return nil, fmt.Errorf("look up imported image %q: %w", name, err)
	}
	return image, d.unpack(ctx, image)
}

func (d *Driver) unpack(ctx context.Context, image containerd.Image) error {
	unpacked, err := image.IsUnpacked(ctx, snapshotter)
	if err == nil && !unpacked {
		err = image.Unpack(ctx, snapshotter)
	}
	if err != nil {
		return fmt.Errorf("unpack image %q: %w", image.Name(), err)
	}
	return nil
}

// importImage streams one image of the layout to containerd. Blobs that containerd has are skipped there.
func (d *Driver) importImage(ctx context.Context, name string, target ocispec.Descriptor) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(d.writeArchive(writer, name, target)) }()
	_, err := d.client.Import(ctx, reader)
	reader.CloseWithError(errors.New("import has ended")) // Ends the writer if the import failed.
	return err
}

// writeArchive writes an OCI archive with one image.
func (d *Driver) writeArchive(w io.Writer, name string, target ocispec.Descriptor) error {
	target.Annotations = map[string]string{images.AnnotationImageName: name}
	index, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{target},
	})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for name, content := range map[string]string{
		ocispec.ImageLayoutFile: fmt.Sprintf(`{"imageLayoutVersion":%q}`, ocispec.ImageLayoutVersion),
		ocispec.ImageIndexFile:  string(index),
	} {
		if err := writeEntry(out, name, int64(len(content)), strings.NewReader(content)); err != nil {
			return err
		}
	}
	if err := d.writeBlobs(out, target, map[string]bool{}); err != nil {
		return err
	}
	return out.Close()
}

// writeBlobs writes a blob and everything it refers to.
func (d *Driver) writeBlobs(out *tar.Writer, target ocispec.Descriptor, done map[string]bool) error {
	key := target.Digest.String()
	if done[key] {
		return nil
	}
	done[key] = true
	f, err := os.Open(d.opts.Layout.BlobPath(key))
	if err != nil {
		return fmt.Errorf("open blob: %w", err)
	}
	defer f.Close()
	entry := path.Join(ocispec.ImageBlobsDir, target.Digest.Algorithm().String(), target.Digest.Encoded())
	if err := writeEntry(out, entry, target.Size, f); err != nil {
		return err
	}
	if !images.IsManifestType(target.MediaType) && !images.IsIndexType(target.MediaType) {
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read blob: %w", err)
	}
	var children struct {
		Config    *ocispec.Descriptor  `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.NewDecoder(f).Decode(&children); err != nil {
		return fmt.Errorf("parse manifest %s: %w", key, err)
	}
	all := append(children.Layers, children.Manifests...)
	if children.Config != nil {
		all = append(all, *children.Config)
	}
	for _, c := range all {
		if err := d.writeBlobs(out, c, done); err != nil {
			return err
		}
	}
	return nil
}

func writeEntry(out *tar.Writer, name string, size int64, content io.Reader) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := io.Copy(out, content)
	return err
}
