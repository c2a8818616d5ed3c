//go:build landscape && linux

// Package systemdhost gives tests a host that runs systemd, whatever the real one runs: namespaces of their own whose
// process 1 is the distribution's systemd, with only a few targets to start. It shares network and files with the real
// host, except that files written below /etc, /run and /var/lib stay in the namespaces.
package systemdhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/hortus/local/components"
)

const (
	// UnitDir is the directory of unit files. It is empty at first.
	UnitDir = "/etc/systemd/system"

	marker     = "HORTUS_TEST_SYSTEMD"
	stageHost  = "host"
	stageBoot  = "boot"
	stageTests = "tests"
	// cgroupVariable has the directory of systemd's cgroup.
	cgroupVariable = "HORTUS_TEST_SYSTEMD_CGROUP"

	program = "/usr/lib/systemd/systemd"
	// cgroupMount has the test's own mount of the unified hierarchy, controlSocket is systemd's socket.
	cgroupMount   = "/run/cgroup"
	controlSocket = "/run/systemd/private"
	// startWait bounds the start of systemd, which takes some 200 ms, endWait that of its processes when it is killed.
	startWait, endWait = 30 * time.Second, 10 * time.Second
	pause              = 10 * time.Millisecond
)

// shipped are the units of the distribution that this host has. All others are left out, since some belong to the real
// host.
var shipped = map[string]string{
	"basic.target":      "[Unit]\nRequires=sysinit.target\nAfter=sysinit.target\n",
	"multi-user.target": "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n",
	"shutdown.target":   "[Unit]\nDefaultDependencies=no\nRefuseManualStart=yes\n",
	"sysinit.target":    "[Unit]\nConflicts=shutdown.target\nBefore=shutdown.target\n",
}

// Main runs the tests of a package on such a host. Call it from TestMain.
//
// The test program runs four times: as it was called; in namespaces of its own (host); as the process that becomes
// systemd (boot); and in systemd's PID namespace, since systemd answers only processes that it can see (tests).
func Main(m *testing.M) {
	var code int
	var err error
	switch os.Getenv(marker) {
	case "":
		if err = components.EnsurePackages(context.Background(), os.Stderr, components.Systemd); err == nil {
			code, err = run(stage(stageHost, syscall.CLONE_NEWNS|syscall.CLONE_NEWUTS|syscall.CLONE_NEWIPC))
		}
	case stageHost:
		code, err = host()
	case stageBoot:
		err = boot()
	case stageTests:
		if err = mountProc(); err == nil {
			code = m.Run()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run systemd for tests (this needs root):", err)
		code = 1
	}
	os.Exit(code)
}

// stage is this program once more, with the same arguments and in new namespaces.
func stage(name string, namespaces uintptr, env ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(append(os.Environ(), marker+"="+name), env...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	return c
}

func run(c *exec.Cmd) (code int, err error) {
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// host starts systemd, runs the tests alongside, and leaves nothing behind.
func host() (code int, err error) {
	// Parent death signals depend on the parent's thread, whose namespaces the started processes inherit, too.
	runtime.LockOSThread()
	if err := prepare(); err != nil {
		return 1, err
	}
	group, err := makeCgroup()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, removeCgroup(group)) }()
	systemd := stage(stageBoot, syscall.CLONE_NEWPID|syscall.CLONE_NEWNS, cgroupVariable+"="+group)
	if err := systemd.Start(); err != nil {
		return 1, fmt.Errorf("start systemd: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = systemd.Wait(); close(ended) }()
	defer func() {
		_ = systemd.Process.Kill() // All others in its namespace end with it.
		<-ended
	}()
	if err := awaitSystemd(ended); err != nil {
		return 1, err
	}
	if err := enterProcesses(systemd.Process.Pid); err != nil {
		return 1, err
	}
	tests := stage(stageTests, syscall.CLONE_NEWNS)
	// A process that does not see its parent takes it for dead. This one ends with its namespace.
	tests.SysProcAttr.Pdeathsig = 0
	return run(tests)
}

// awaitSystemd waits until systemd listens.
func awaitSystemd(ended <-chan struct{}) error {
	for deadline := time.Now().Add(startWait); time.Now().Before(deadline); time.Sleep(pause) {
		if _, err := os.Stat(controlSocket); err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("systemd ended at once")
		default:
		}
	}
	return fmt.Errorf("%s was not there after %s", controlSocket, startWait)
}

// enterProcesses makes all later child processes of this thread run in the PID namespace of a process.
func enterProcesses(pid int) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return fmt.Errorf("enter namespace of systemd: %w", err)
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter namespace of systemd: %w", err)
	}
	return nil
}

func mountProc() error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// prepare prepares the namespaces for a systemd that must not change the real host.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, dir := range []string{"/run", "/usr/lib/systemd/system", "/usr/lib/systemd/system-generators"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("cover %s: %w", dir, err)
		}
	}
	for name, content := range shipped {
		if err := os.WriteFile(filepath.Join("/usr/lib/systemd/system", name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/etc", "/var/lib"} {
		if err := cover(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(UnitDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", UnitDir, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("cover %s: %w", UnitDir, err)
	}
	// With this file systemd does not create one.
	return os.WriteFile("/etc/machine-id", []byte(strings.Repeat("0123456789abcdef", 2)+"\n"), 0o444)
}

// cover makes files written below a directory visible in these namespaces only.
func cover(dir string) error {
	upper, work := filepath.Join("/run/upper", dir), filepath.Join("/run/work", dir)
	for _, made := range []string{upper, work} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	options := "lowerdir=" + dir + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		return fmt.Errorf("cover %s: %w", dir, err)
	}
	return nil
}

// makeCgroup makes a cgroup in the unified hierarchy, which also exists alongside those of cgroup v1.
func makeCgroup() (string, error) {
	if err := os.MkdirAll(cgroupMount, 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount("cgroup2", cgroupMount, "cgroup2", 0, ""); err != nil {
		return "", fmt.Errorf("mount cgroup2: %w", err)
	}
	group := filepath.Join(cgroupMount, "hortus-test-systemd-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		return "", fmt.Errorf("make cgroup: %w", err)
	}
	return group, nil
}

// removeCgroup removes a cgroup and its descendants. Its last processes may be about to leave.
func removeCgroup(group string) error {
	var err error
	for deadline := time.Now().Add(endWait); time.Now().Before(deadline); time.Sleep(pause) {
		var groups []string
		_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for i := len(groups) - 1; i >= 0; i-- { // Children follow their parents in a walk.
			err = os.Remove(groups[i])
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("remove cgroup: %w", err)
}

// boot becomes systemd, as process 1 of a namespace and at the root of its cgroup namespace.
func boot() error {
	runtime.LockOSThread()
	group := os.Getenv(cgroupVariable)
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("enter cgroup: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make cgroup namespace: %w", err)
	}
	if err := mountProc(); err != nil {
		return err
	}
	for _, mount := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"/proc/sys", "/proc/sys", "", unix.MS_BIND},
		// Settings of the kernel belong to the real host.
		{"", "/proc/sys", "", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY},
		{"tmpfs", "/sys/fs/cgroup", "tmpfs", 0},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", 0},
	} {
		if err := unix.Mount(mount.source, mount.target, mount.kind, mount.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", mount.target, err)
		}
	}
	return unix.Exec(program, []string{program, "--system", "--unit=multi-user.target",
		"--log-target=null", "--show-status=no", "--default-standard-output=null"},
		// The variable marks a container, so that systemd does not treat the kernel as its own.
		[]string{"container=hortus-test", "PATH=" + os.Getenv("PATH")})
}
