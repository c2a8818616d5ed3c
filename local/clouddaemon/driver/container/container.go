//go:build linux

// Package container is the driver that runs instances for real: as privileged containers on the host's containerd, each
// with its own network namespace, in which the machine's own init, containerd and kubelet run.
package container

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/registry"
)

const (
	// Namespace is the containerd namespace of everything the cloud runs.
	Namespace = "hortus"
	// snapshotter is the snapshotter that depends only on the kernel.
	snapshotter = "overlayfs"
	// RuncDir is the name of runc's directory, next to containerd's socket.
	RuncDir = "runc"
	// CgroupParent is the parent cgroup of all instances.
	CgroupParent = "/hortus"

	// connectTimeout bounds the wait for containerd in one call; callers try again.
	connectTimeout = 5 * time.Second
	// resubscribe is the pause before the next subscription to events after the connection to containerd was lost.
	resubscribe = time.Second
	// changesBuffered lets instances end while the cloud is busy; changes that do not fit are delivered as "".
	changesBuffered = 256
)

// Options configure a Driver.
type Options struct {
	// Address is the path of containerd's socket.
	Address string
	// Runc is the path of runc. Empty means the one in containerd's PATH.
	Runc string
	// Layout is the OCI image layout with the machine images.
	Layout *registry.Registry
	// ImageRepository is the repository of machine images, for example hortus.dev/machine.
	ImageRepository string
}

// Driver runs instances on containerd.
type Driver struct {
	opts    Options
	client  *containerd.Client
	changes chan string

	importing sync.Mutex // One image is imported at a time; the second instance finds it there.
}

var _ driver.Driver = (*Driver)(nil)

// New returns a Driver. It does not wait for containerd.
func New(opts Options) (*Driver, error) {
	client, err := containerd.New(opts.Address, containerd.WithDefaultNamespace(Namespace),
		containerd.WithTimeout(connectTimeout))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w", opts.Address, err)
	}
	return &Driver{opts: opts, client: client, changes: make(chan string, changesBuffered)}, nil
}

// Name returns "container".
func (d *Driver) Name() string { return "container" }

func (d *Driver) context(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, Namespace)
}

// Images lists the machine images of the layout.
func (d *Driver) Images(context.Context) ([]cloud.MachineImage, error) {
	images, err := d.opts.Layout.Images()
	if err != nil {
		return nil, err
	}
	var out []cloud.MachineImage
	for name, descriptor := range images {
		if version, ok := strings.CutPrefix(name, d.opts.ImageRepository+":"); ok {
			out = append(out, cloud.MachineImage{
				Name: name, Version: version, Architecture: runtime.GOARCH, Digest: descriptor.Digest.String(),
			})
		}
	}
	slices.SortFunc(out, func(a, b cloud.MachineImage) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Observe reads the state of the instance's task from containerd.
func (d *Driver) Observe(ctx context.Context, id string) (driver.Observation, error) {
	_, task, err := d.load(ctx, id)
	if err != nil {
		return driver.Observation{}, err
	}
	if task == nil {
		return driver.Observation{Phase: driver.Absent}, nil
	}
	status, err := task.Status(d.context(ctx))
	if errdefs.IsNotFound(err) {
		return driver.Observation{Phase: driver.Absent}, nil
	}
	if err != nil {
		return driver.Observation{}, fmt.Errorf("read state of container %q: %w", id, err)
	}
	switch status.Status {
	case containerd.Running, containerd.Paused, containerd.Pausing:
		return driver.Observation{Phase: driver.Running}, nil
	case containerd.Stopped:
		return driver.Observation{Phase: driver.Exited, ExitCode: int(status.ExitStatus)}, nil
	case containerd.Created: // Interrupted between the creation and the start of the task.
		return driver.Observation{Phase: driver.Absent}, nil
	default:
		return driver.Observation{}, fmt.Errorf("container %q: unexpected state: %q", id, status.Status)
	}
}

// load returns container and task of an instance, nil for what does not exist.
func (d *Driver) load(ctx context.Context, id string) (containerd.Container, containerd.Task, error) {
	ctx = d.context(ctx)
	container, err := d.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("load container %q: %w", id, err)
	}
	task, err := container.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return container, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("load task of container %q: %w", id, err)
	}
	return container, task, nil
}

// Start boots an instance. Its snapshot, the disk, is made at the first boot and kept.
func (d *Driver) Start(ctx context.Context, m driver.Machine) error {
	seen, err := d.Observe(ctx, m.ID)
	if err != nil {
		return err
	}
	if seen.Phase == driver.Running {
		return nil
	}
	if err := d.Stop(ctx, m.ID); err != nil {
		return err
	}
	container, err := d.ensureContainer(ctx, m)
	if err != nil {
		return err
	}
	ctx = d.context(ctx)
	task, err := container.NewTask(ctx, cio.LogFile(m.ConsolePath))
	if err != nil {
		return fmt.Errorf("make task of container %q: %w", m.ID, err)
	}
	// Without this weight, builds and tests on the same machine would leave a landscape hardly any CPU time.
	err = weighCgroup(CgroupParent, runtime.NumCPU())
	if err == nil {
		err = task.Start(ctx)
	}
	if err != nil {
		_, removeErr := task.Delete(ctx, containerd.WithProcessKill)
		return errors.Join(fmt.Errorf("start container %q: %w", m.ID, err), removeErr)
	}
	return nil
}

// ensureContainer makes the container, or gives an existing one the current specification.
func (d *Driver) ensureContainer(ctx context.Context, m driver.Machine) (containerd.Container, error) {
	image, err := d.ensureImage(ctx, m.Image)
	if err != nil {
		return nil, err
	}
	ctx = d.context(ctx)
	spec := containerd.WithNewSpec(specOptions(m, image)...)
	container, err := d.client.LoadContainer(ctx, m.ID)
	if err == nil {
		if err := container.Update(ctx, containerd.UpdateContainerOpts(spec)); err != nil {
			return nil, fmt.Errorf("update container %q: %w", m.ID, err)
		}
		return container, nil
	}
	if !errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("load container %q: %w", m.ID, err)
	}
	// A snapshot without a container was left by a crash, and is not used.
	if err := d.client.SnapshotService(snapshotter).Remove(ctx, m.ID); err != nil && !errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("remove old snapshot of container %q: %w", m.ID, err)
	}
	container, err = d.client.NewContainer(ctx, m.ID,
		containerd.WithImage(image),
		containerd.WithSnapshotter(snapshotter),
		containerd.WithNewSnapshot(m.ID, image),
		containerd.WithRuntime("io.containerd.runc.v2", &options.Options{
			BinaryName: d.opts.Runc, Root: filepath.Join(filepath.Dir(d.opts.Address), RuncDir),
		}),
		containerd.WithContainerLabels(map[string]string{"cloud.hortus.dev/name": m.Hostname}),
		spec,
	)
	if err != nil {
		return nil, fmt.Errorf("make container %q: %w", m.ID, err)
	}
	return container, nil
}

// Stop kills the first process of the instance; the kernel then kills all other processes of its process namespace.
func (d *Driver) Stop(ctx context.Context, id string) error {
	_, task, err := d.load(ctx, id)
	if err != nil || task == nil {
		return err
	}
	if _, err := task.Delete(d.context(ctx), containerd.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("stop container %q: %w", id, err)
	}
	if err := RemoveCgroup(path.Join(CgroupParent, id)); err != nil {
		return fmt.Errorf("remove cgroup of container %q: %w", id, err)
	}
	return nil
}

// Remove kills the instance and removes its container and disk.
func (d *Driver) Remove(ctx context.Context, id string) error {
	if err := d.Stop(ctx, id); err != nil {
		return err
	}
	container, _, err := d.load(ctx, id)
	if err != nil || container == nil {
		return err
	}
	if err := container.Delete(d.context(ctx), containerd.WithSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %q: %w", id, err)
	}
	return nil
}

// List returns all containers of the namespace.
func (d *Driver) List(ctx context.Context) ([]string, error) {
	containers, err := d.client.ContainerService().List(d.context(ctx))
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var ids []string
	for _, c := range containers {
		ids = append(ids, c.ID)
	}
	return ids, nil
}

// Signal sends a signal to the first process of an instance.
func (d *Driver) Signal(ctx context.Context, id string, signal syscall.Signal) error {
	_, task, err := d.load(ctx, id)
	if err != nil {
		return err
	}
	if task == nil {
		return fmt.Errorf("signal container %q: not running", id)
	}
	return task.Kill(d.context(ctx), signal)
}

// Changes delivers the IDs of instances that have ended.
func (d *Driver) Changes() <-chan string { return d.changes }

// Run follows containerd's events until ctx ends. Whenever the stream breaks, anything may have changed.
func (d *Driver) Run(ctx context.Context) {
	defer d.client.Close()
	for ctx.Err() == nil {
		d.follow(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(resubscribe):
		}
		d.notify("")
	}
}

func (d *Driver) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, failed := d.client.EventService().Subscribe(d.context(ctx), `topic=="/tasks/exit",namespace==`+Namespace)
	for {
		select {
		case <-failed:
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			event, err := typeurl.UnmarshalAny(m.Event)
			if exit, isExit := event.(*events.TaskExit); err == nil && isExit && exit.ID == exit.ContainerID {
				d.notify(exit.ContainerID)
			}
		}
	}
}

// notify reports a change without ever blocking.
func (d *Driver) notify(id string) {
	select {
	case d.changes <- id:
	default: // The buffer is full. The reader also compares everything periodically.
	}
}
