//go:build landscape && linux

// Package sandboxtest lets tests that need root run alongside a landscape on the same host: in network and mount
// namespaces of their own, with a containerd of their own.
package sandboxtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/components"
	"hortus.dev/hortus/test/leaks"
)

const (
	marker = "HORTUS_TEST_SANDBOX"
	// artifactsEnv names the directory of built artifacts, by default .build at the root of the repository.
	artifactsEnv = "HORTUS_ARTIFACTS"
	// startWait bounds the start of containerd, which takes some 50 ms.
	startWait = 20 * time.Second
)

// Main runs the tests of a package in fresh namespaces, as [leaks.Main] does. Call it from TestMain.
func Main(m *testing.M) {
	if os.Getenv(marker) == "" {
		os.Exit(reexec())
	}
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set up sandbox:", err)
		os.Exit(1)
	}
	leaks.Main(m)
}

func reexec() int {
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), marker+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "enter sandbox (this test needs root):", err)
		return 1
	}
	return 0
}

func setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/run/netns", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("hide the host's network namespaces: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// Artifacts returns the directory of built artifacts.
func Artifacts(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(artifactsEnv); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return filepath.Join(dir, ".build")
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no artifacts: set %s", artifactsEnv)
	return ""
}

// Host is a host with a containerd.
type Host struct {
	// StateDir and RunDir are directories on a real disk; the latter because an overlay on overlay does not work.
	StateDir, RunDir string
	// Containerd describes the running containerd.
	Containerd clouddaemon.HostContainerd

	artifacts string
	process   *exec.Cmd
}

// NewHost starts containerd with directories of its own; both are removed when the test ends.
func NewHost(t testing.TB) *Host {
	t.Helper()
	dir, err := os.MkdirTemp("/var/lib", "hortus-test-")
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), artifacts: Artifacts(t)}
	h.Containerd = clouddaemon.DefaultHostContainerd(h.StateDir, h.RunDir)
	for _, d := range []string{h.StateDir, h.RunDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.StartContainerd(t)
	t.Cleanup(func() {
		h.KillContainerd()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return h
}

// program returns the path of a built program.
func (h *Host) program(t testing.TB, component, name string) string {
	t.Helper()
	selected, err := components.Select(components.All(), component)
	if err != nil {
		t.Fatal(err)
	}
	path := selected[0].Path(h.artifacts, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built: %v", name, err)
	}
	return path
}

// StartContainerd starts containerd, again after KillContainerd.
func (h *Host) StartContainerd(t testing.TB) {
	t.Helper()
	config := filepath.Join(h.StateDir, "containerd.toml")
	if err := os.WriteFile(config, []byte(h.Containerd.Render()), 0o600); err != nil {
		t.Fatal(err)
	}
	program, runc := h.program(t, "containerd", "containerd"), h.program(t, "runc", "runc")
	log, err := os.OpenFile(filepath.Join(h.StateDir, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h.process = exec.Command(program, "--config", config)
	h.process.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+filepath.Dir(runc)+":"+os.Getenv("PATH"))
	h.process.Stdout, h.process.Stderr = log, log
	if err := h.process.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(startWait); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", h.Containerd.Socket); err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			data, _ := os.ReadFile(log.Name())
			t.Fatalf("containerd does not start:\n%s", data)
		}
	}
}

// KillContainerd kills containerd as a crash would; instances continue to run.
func (h *Host) KillContainerd() {
	_ = h.process.Process.Kill()
	_ = h.process.Wait()
}
