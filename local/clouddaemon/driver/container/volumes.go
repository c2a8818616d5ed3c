//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// SetVolumes mounts volumes below dir. Dir is made a mount of its own whose mounts spread to the instances that follow
// it.
func (d *Driver) SetVolumes(_ context.Context, _, dir string, volumes map[string]string) error {
	dir, err := ensureShared(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		source, wanted := volumes[e.Name()]
		if wanted && shows(path, source) {
			continue
		}
		if err := detach(path); err != nil {
			return err
		}
		_ = os.Remove(path) // Only if it is empty: other files there do no harm.
	}
	for name, source := range volumes {
		path := filepath.Join(dir, name)
		if shows(path, source) {
			continue
		}
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make mount point: %w", err)
		}
		// The instance cannot write here. If it could, a link must not redirect the mount.
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			return fmt.Errorf("mount volume at %s: not a directory", path)
		}
		if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount volume at %s: %w", path, err)
		}
	}
	return nil
}

// RemoveVolumes detaches everything that is mounted at or below dir.
func (d *Driver) RemoveVolumes(_ context.Context, _, dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return detach(dir)
}

// ensureShared makes dir a mount whose peers and followers see what is mounted below it, and returns its path as the
// kernel knows it.
func ensureShared(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make directory of volumes: %w", err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	mounted, err := mountPointsBelow(dir)
	if err != nil {
		return "", err
	}
	if !slices.Contains(mounted, dir) {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return "", fmt.Errorf("mount %s on itself: %w", dir, err)
		}
		// From here on the new mount shares nothing with its original, only with its followers.
		if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
			return "", fmt.Errorf("make mount %s private: %w", dir, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return "", fmt.Errorf("make mount %s shared: %w", dir, err)
	}
	return dir, nil
}

// detach detaches every mount at or below path, the innermost first, and makes sure that none is left.
func detach(path string) error {
	points, err := mountPointsBelow(path)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(points) {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("detach %s: %w", p, err)
		}
	}
	if points, err = mountPointsBelow(path); err == nil && len(points) > 0 {
		err = fmt.Errorf("detach %s: still mounted: %s", path, strings.Join(points, ", "))
	}
	return err
}

func mountPointsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return MountPoints(string(data), dir), nil
}

// MountPoints returns the mount points at or below dir, in the order of mounting (proc_pid_mountinfo(5), field 5).
func MountPoints(mountinfo, dir string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if p := unescape.Replace(fields[4]); p == dir || strings.HasPrefix(p, dir+"/") {
			out = append(out, p)
		}
	}
	return out
}

// shows reports whether path is a mount of source: both are the same directory then.
func shows(path, source string) bool {
	x, errX := os.Lstat(path)
	y, errY := os.Stat(source)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
