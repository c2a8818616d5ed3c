//go:build linux

// Package cleanup removes everything that the local cloud has ever created on a host, even after a crash of its daemon.
// It finds leftovers by their names and in the kernel's own lists, and uses containerd only if that runs.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/clouddaemon/driver/container"
	"hortus.dev/hortus/local/clouddaemon/fabric/linux"
)

// Options are the paths that the cloud uses.
type Options struct {
	StateDir string
	RunDir   string
	// Containerd is the socket of the host's containerd.
	Containerd string
}

const (
	// daemonWait bounds the wait for a daemon that is just ending.
	daemonWait = 5 * time.Second
	// dialWait bounds the attempt to connect to containerd, whose socket is on this host; if it fails, containerd does
	// not run.
	dialWait = 2 * time.Second
	// shimSockets is the directory of the sockets of shims, independent of the state directory of their containerd.
	shimSockets = "/run/containerd/s"
)

// Run removes everything and continues after an error. The daemon must not run; containerd may. If containerd does not
// run, Run removes its data, too.
func Run(ctx context.Context, o Options) error {
	recorded, unlock, err := lock(filepath.Join(o.StateDir, "cloud", "cloud.db"))
	if err != nil {
		return err
	}
	defer unlock()
	host := clouddaemon.DefaultHostContainerd(o.StateDir, o.RunDir)
	var errs []error
	keep := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	alive := answers(o.Containerd)
	for _, id := range instances(recorded, o, host) {
		keep("end instance "+id, container.RemoveCgroup(path.Join(container.CgroupParent, id)))
	}
	container.RemoveEmptyCgroup(container.CgroupParent)
	if alive {
		keep("remove containers", removeContainers(ctx, o.Containerd))
	}
	keep("end shims", endShims(o.Containerd))
	dirs := []string{filepath.Join(o.StateDir, "cloud"), filepath.Join(filepath.Dir(o.Containerd), container.RuncDir)}
	if !alive {
		dirs = append(dirs, host.Root, host.State, host.Socket, host.Socket+".ttrpc")
	}
	keep("remove networks", linux.Cleanup())
	for _, dir := range dirs {
		keep("detach mounts", detachMounts(dir))
		keep("remove files", os.RemoveAll(dir))
	}
	removeDeadSockets()
	return errors.Join(errs...)
}

// lock makes sure that no daemon runs, by taking the lock on its database, and returns the instances recorded there.
func lock(path string) (recorded []string, unlock func(), err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, func() {}, nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: daemonWait})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, nil, errors.New("the cloud daemon is still running. Stop it first")
	}
	if err != nil { // Broken records are removed like everything else.
		return nil, func() {}, nil
	}
	recorded, err = clouddaemon.RecordedInstances(db)
	return recorded, func() { db.Close() }, err
}

// instances returns the IDs of all instances of this cloud: those recorded, and those that left a directory, a task of
// containerd or a network namespace. Others below the same cgroup may belong to a cloud with another state directory.
func instances(recorded []string, o Options, host clouddaemon.HostContainerd) []string {
	ids := slices.Clone(recorded)
	for _, pattern := range []string{
		filepath.Join(o.StateDir, "cloud", "instances", "*"),
		filepath.Join(host.State, "io.containerd.runtime.v2.task", container.Namespace, "*"),
		linux.NamespacePath("i-*"),
	} {
		found, _ := filepath.Glob(pattern)
		for _, f := range found {
			ids = append(ids, strings.TrimPrefix(filepath.Base(f), filepath.Base(linux.NamespacePath(""))))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// answers reports whether something listens on a Unix socket.
func answers(socket string) bool {
	c, err := net.DialTimeout("unix", socket, dialWait)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// removeContainers removes containers, snapshots and images through containerd.
func removeContainers(ctx context.Context, socket string) error {
	client, err := containerd.New(socket, containerd.WithDefaultNamespace(container.Namespace))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx = namespaces.WithNamespace(ctx, container.Namespace)
	containers, err := client.Containers(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range containers {
		if task, err := c.Task(ctx, nil); err == nil {
			if _, err := task.Delete(ctx, containerd.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
		if err := c.Delete(ctx, containerd.WithSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	images, err := client.ImageService().List(ctx)
	errs = append(errs, err)
	for _, i := range images {
		if err := client.ImageService().Delete(ctx, i.Name); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// endShims kills the shims of the cloud's containers that outlived them.
func endShims(socket string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		if isShim(strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), socket) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}

// isShim reports whether a command line belongs to a shim of the cloud's namespace and containerd.
func isShim(args []string, socket string) bool {
	if len(args) == 0 || filepath.Base(args[0]) != "containerd-shim-runc-v2" {
		return false
	}
	value := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	return value("-namespace") == container.Namespace && value("-address") == socket
}

// detachMounts detaches every mount at or below dir, the innermost first.
func detachMounts(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	points := container.MountPoints(string(data), dir)
	slices.Reverse(points)
	var errs []error
	for _, p := range points {
		if err := unix.Unmount(p, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
			!errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("detach %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// removeDeadSockets removes the sockets of killed shims: those that no process listens on, whichever containerd they
// belonged to.
func removeDeadSockets() {
	sockets, _ := filepath.Glob(filepath.Join(shimSockets, "*"))
	for _, s := range sockets {
		if c, err := net.DialTimeout("unix", s, dialWait); err == nil {
			c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(s)
		}
	}
	for _, dir := range []string{shimSockets, filepath.Dir(shimSockets)} {
		_ = os.Remove(dir) // Only if it is empty.
	}
}
