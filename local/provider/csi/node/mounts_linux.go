package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel makes mounts for real.
type Kernel struct{}

var _ Mounts = Kernel{}

// Mounted looks path up among the mount points that the caller sees.
func (Kernel) Mounted(path string) (bool, error) {
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return false, err
	}
	return slices.Contains(mountPoints(string(data)), filepath.Clean(path)), nil
}

// mountPoints returns all mount points of a mountinfo (proc_pid_mountinfo(5), field 5).
func mountPoints(mountinfo string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 {
			out = append(out, unescape.Replace(fields[4]))
		}
	}
	return out
}

// Bind makes a bind mount. Read-only takes a second step, which undoes the first if it fails.
func (Kernel) Bind(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		_ = unix.Unmount(target, unix.MNT_DETACH)
		return err
	}
	return nil
}

// Unmount removes a mount that is no longer in use.
func (Kernel) Unmount(path string) error { return unix.Unmount(path, unix.UMOUNT_NOFOLLOW) }

// Stats returns the size and use that the file system reports.
func (Kernel) Stats(path string) (Stats, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Stats{}, err
	}
	size := int64(s.Bsize) //nolint:unconvert // Its type depends on the architecture.
	return Stats{
		TotalBytes: int64(s.Blocks) * size, FreeBytes: int64(s.Bavail) * size, UsedBytes: int64(s.Blocks-s.Bfree) * size,
		TotalInodes: int64(s.Files), FreeInodes: int64(s.Ffree), UsedInodes: int64(s.Files - s.Ffree),
	}, nil
}
