//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inNamespace runs fn on a thread that is in the namespace. Only the thread moves, so fn must not start goroutines that
// depend on it.
func inNamespace(ns netns.NsHandle, fn func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("find own network namespace: %w", err)
	}
	defer home.Close()
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace: %w", err)
	}
	err = fn()
	if back := netns.Set(home); back != nil {
		// The thread stays locked and so ends with its goroutine: no other goroutine gets a thread in the wrong
		// namespace.
		return errors.Join(err, fmt.Errorf("leave network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// ensureNamespace opens the namespace of an object, making it if necessary.
func ensureNamespace(id string) (netns.NsHandle, error) {
	path := NamespacePath(id)
	if isNamespace(path) {
		return openNamespace(id)
	}
	if err := removeNamespace(id); err != nil { // A name without namespace, from a crash or a reboot.
		return 0, err
	}
	if err := makeNamespace(path); err != nil {
		return 0, fmt.Errorf("make network namespace of %q: %w", id, err)
	}
	return openNamespace(id)
}

// isNamespace reports whether a namespace is mounted at path.
func isNamespace(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// makeNamespace makes a namespace on a thread of its own and gives it a name by mounting it, as ip-netns does.
func makeNamespace(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	f.Close()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends here.
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			failed <- fmt.Errorf("unshare: %w", err)
			return
		}
		source := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
			failed <- fmt.Errorf("mount: %w", err)
			return
		}
		failed <- nil
	}()
	if err := <-failed; err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// removeNamespace removes the name of a namespace; the kernel removes it when no process is left in it.
func removeNamespace(id string) error {
	path := NamespacePath(id)
	for isNamespace(path) { // It may have been mounted over itself.
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount network namespace of %q: %w", id, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove network namespace of %q: %w", id, err)
	}
	return nil
}
