package machineinit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// setUpCgroups replaces the cgroup mounts by ones that show the machine's own cgroup as the root. It has to run inside
// a new cgroup namespace: only then do the mounts and /proc/self/cgroup agree, and only then is a kubelet inside kept
// out of the host's tree. With clean, cgroups that are left from the last boot are removed.
func setUpCgroups(clean bool) error {
	version2, err := isCgroup2()
	if err != nil {
		return err
	}
	if err := detachBelow(cgroupRoot); err != nil {
		return err
	}
	setUp := setUpCgroup1
	if version2 {
		setUp = setUpCgroup2
	}
	if err := setUp(); err != nil {
		return err
	}
	if clean {
		removeCgroups(cgroupRoot)
	}
	return nil
}

// ownsCgroups reports whether a process with this /proc/self/cgroup is in cgroups other than the root, so that what is
// below them is its own. Where there is cgroup v1, the line of v2 (number 0) has no controllers and does not count.
func ownsCgroups(procCgroup []byte) bool {
	var version1, version2 []string // Paths.
	lines := bufio.NewScanner(bytes.NewReader(procCgroup))
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[0] == "0":
			version2 = append(version2, fields[2])
		default:
			version1 = append(version1, fields[2])
		}
	}
	paths := version1
	if len(paths) == 0 {
		paths = version2
	}
	return len(paths) > 0 && !slices.Contains(paths, "/")
}

// removeCgroups removes the empty cgroups below dir, which containers of the last boot have left: a real machine would
// not have them, and a kubelet spends seconds on each to find out that there is no container to it. Those with
// processes stay, since the kernel refuses to remove them.
func removeCgroups(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // Gone meanwhile.
	}
	for _, entry := range entries {
		if entry.IsDir() {
			child := filepath.Join(dir, entry.Name())
			removeCgroups(child)
			_ = unix.Rmdir(child)
		}
	}
}

func isCgroup2() (bool, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &stat); err != nil {
		return false, fmt.Errorf("stat %s: %w", cgroupRoot, err)
	}
	return stat.Type == unix.CGROUP2_SUPER_MAGIC, nil
}

// detachBelow detaches every mount at or below path, the innermost first.
func detachBelow(path string) error {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	points := mountPointsBelow(info, path)
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("detach %s: %w", point, err)
		}
	}
	return nil
}

// mountPointsBelow reads mount points from mountinfo, in the order they were mounted.
func mountPointsBelow(mountinfo []byte, path string) []string {
	var points []string
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && (fields[4] == path || strings.HasPrefix(fields[4], path+"/")) {
			points = append(points, fields[4])
		}
	}
	return points
}

// hierarchy is a cgroup v1 hierarchy: the directory it is mounted at and its mount option.
type hierarchy struct{ dir, option string }

// hierarchies reads the cgroup v1 hierarchies from /proc/self/cgroup. The line with number 0 is that of cgroup v2,
// which on such hosts has no controllers.
func hierarchies(procCgroup []byte) []hierarchy {
	var list []hierarchy
	lines := bufio.NewScanner(bytes.NewReader(procCgroup))
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) == 3 && fields[0] != "0" {
			list = append(list, hierarchy{dir: strings.TrimPrefix(fields[1], "name="), option: fields[1]})
		}
	}
	return list
}

func setUpCgroup1() error {
	if err := unix.Mount("tmpfs", cgroupRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=755"); err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", cgroupRoot, err)
	}
	proc, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("read own cgroups: %w", err)
	}
	for _, h := range hierarchies(proc) {
		dir := filepath.Join(cgroupRoot, h.dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make mount point of cgroup %s: %w", h.option, err)
		}
		if err := unix.Mount("cgroup", dir, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, h.option); err != nil {
			return fmt.Errorf("mount cgroup %s: %w", h.option, err)
		}
		// Programs look for single controllers also where several share a hierarchy ("cpu,cpuacct").
		if controllers := strings.Split(h.dir, ","); len(controllers) > 1 {
			for _, controller := range controllers {
				if err := os.Symlink(h.dir, filepath.Join(cgroupRoot, controller)); err != nil {
					return fmt.Errorf("link cgroup %s: %w", controller, err)
				}
			}
		}
	}
	return nil
}

// setUpCgroup2 also delegates all controllers. A cgroup that does so may hold no processes itself, so those there are
// move into a leaf.
func setUpCgroup2() error {
	if err := unix.Mount("cgroup2", cgroupRoot, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount cgroup2: %w", err)
	}
	leaf := filepath.Join(cgroupRoot, "init")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return fmt.Errorf("make cgroup of process 1: %w", err)
	}
	pids, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, pid := range strings.Fields(string(pids)) {
		err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0o644)
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended.
			return fmt.Errorf("move process %s into the cgroup of process 1: %w", pid, err)
		}
	}
	controllers, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("list cgroup controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+"+controller),
			0o644); err != nil {
			return fmt.Errorf("delegate cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}
