package nodeagent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	containerdclient "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"

	"hortus.dev/hortus/internal/nodeagent/config"
)

// ImageExtractor copies a file out of a container image.
type ImageExtractor interface {
	// Extract gives target the content of the file and the mode, and reports whether it had others.
	Extract(ctx context.Context, image, pathInImage, target string, mode fs.FileMode) (changed bool, err error)
}

const (
	// containerdNamespace is the kubelet's namespace, so that an image pulled here need not be pulled again for pods.
	containerdNamespace = "k8s.io"
	snapshotter         = "overlayfs"
)

// Containerd extracts files with the node's container runtime, which knows how registries are reached.
type Containerd struct{ client *containerdclient.Client }

// NewContainerd returns a Containerd for the socket. It connects when it is used.
func NewContainerd(socket string) (*Containerd, error) {
	client, err := containerdclient.New(socket, containerdclient.WithDefaultNamespace(containerdNamespace))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd: %w", err)
	}
	return &Containerd{client: client}, nil
}

// Check fails if containerd does not answer.
func (c *Containerd) Check(ctx context.Context) error {
	if _, err := c.client.Version(ctx); err != nil {
		return fmt.Errorf("query version of containerd: %w", err)
	}
	return nil
}

// Extract implements ImageExtractor.
func (c *Containerd) Extract(ctx context.Context, image, pathInImage, target string, mode fs.FileMode) (bool, error) {
	ctx = namespaces.WithNamespace(ctx, containerdNamespace)
	// The lease protects the snapshot from the garbage collector while it is in use.
	ctx, release, err := c.client.WithLease(ctx)
	if err != nil {
		return false, fmt.Errorf("extract %s from %s: make lease: %w", pathInImage, image, err)
	}
	defer func() { _ = release(context.WithoutCancel(ctx)) }() // Leases expire by themselves.
	pulled, err := c.pull(ctx, image)
	if err != nil {
		return false, fmt.Errorf("pull image %s: %w", image, err)
	}
	changed, err := c.copyOut(ctx, pulled, pathInImage, target, mode)
	if err != nil {
		return false, fmt.Errorf("extract %s from %s: %w", pathInImage, image, err)
	}
	return changed, nil
}

func (c *Containerd) pull(ctx context.Context, name string) (containerdclient.Image, error) {
	image, err := c.client.GetImage(ctx, name)
	if errdefs.IsNotFound(err) {
		hosts := dockerconfig.HostOptions{HostDir: dockerconfig.HostDirFromRoot(config.ContainerdCertsDir)}
		return c.client.Pull(ctx, name, containerdclient.WithPullUnpack, containerdclient.WithPullSnapshotter(snapshotter),
			containerdclient.WithResolver(docker.NewResolver(docker.ResolverOptions{
				Hosts: dockerconfig.ConfigureHosts(ctx, hosts),
			})))
	}
	if err != nil {
		return nil, err
	}
	if unpacked, err := image.IsUnpacked(ctx, snapshotter); err != nil || unpacked {
		return image, err
	}
	return image, image.Unpack(ctx, snapshotter)
}

func (c *Containerd) copyOut(
	ctx context.Context, image containerdclient.Image, pathInImage, target string, mode fs.FileMode,
) (changed bool, err error) {
	layers, err := image.RootFS(ctx)
	if err != nil {
		return false, fmt.Errorf("read layers: %w", err)
	}
	snapshots := c.client.SnapshotService(snapshotter)
	key := fmt.Sprintf("node-agent-%x", sha256.Sum256([]byte(image.Name()+target)))
	if err := snapshots.Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) { // Of a killed process.
		return false, fmt.Errorf("remove old snapshot: %w", err)
	}
	mounts, err := snapshots.View(ctx, key, identity.ChainID(layers).String())
	if err != nil {
		return false, fmt.Errorf("make snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, snapshots.Remove(context.WithoutCancel(ctx), key)) }()
	err = mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
		// Inside the image, so that a link in it cannot lead to a file of the node.
		inside, err := os.OpenRoot(root)
		if err != nil {
			return err
		}
		defer inside.Close()
		source, err := inside.Open(filepath.Clean("." + string(filepath.Separator) + pathInImage))
		if err != nil {
			return err
		}
		defer source.Close()
		changed, err = copyFile(source, target, mode)
		return err
	})
	return changed, err
}

// copyFile is writeFile for content that is too big for memory.
func copyFile(source io.Reader, target string, mode fs.FileMode) (changed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return false, err
	}
	temporary := target + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return false, err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), source)
	if err = errors.Join(err, file.Close()); err != nil {
		return false, errors.Join(err, os.Remove(temporary))
	}
	if existing, err := fileSum(target); err == nil && bytes.Equal(existing, sum.Sum(nil)) {
		if err := os.Remove(temporary); err != nil {
			return false, err
		}
		return chmod(target, mode)
	}
	if err := os.Chmod(temporary, mode); err != nil {
		return false, err
	}
	return true, os.Rename(temporary, target)
}

func fileSum(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return sum.Sum(nil), err
}
