//go:build landscape

package machineinit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/hortus/local/machineinit/unit"
)

// These tests boot a machine in namespaces of their own. They need root, a static busybox, and the go program.

// rootVariable makes the test program prepare a root file system inside the new namespaces and become its init.
const rootVariable = "MACHINE_TEST_ROOT"

func init() {
	playRole = func() {
		if root := os.Getenv(rootVariable); root != "" {
			fmt.Println(enterRoot(root))
			os.Exit(1)
		}
	}
}

// enterRoot does what a container runtime does before it starts process 1.
func enterRoot(root string) error {
	for _, mount := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_PRIVATE | unix.MS_REC},
		{root, root, "", unix.MS_BIND},
		{"proc", root + "/proc", "proc", 0},
		{"sysfs", root + "/sys", "sysfs", 0},
		{"/sys/fs/cgroup", root + "/sys/fs/cgroup", "", unix.MS_BIND | unix.MS_REC},
		{"/dev", root + "/dev", "", unix.MS_BIND | unix.MS_REC},
	} {
		if err := unix.Mount(mount.source, mount.target, mount.kind, mount.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", mount.target, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "old"); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach old root: %w", err)
	}
	return unix.Exec("/sbin/init", []string{"/sbin/init"}, nil)
}

// booted is a running machine.
type booted struct {
	root    string
	command *exec.Cmd
	console bytes.Buffer
	client  *unit.Client
}

func makeRoot(t *testing.T, userData string) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{
		"sbin", "bin", "etc", "proc", "sys", "dev", "old", "tmp", "var/lib", strings.TrimPrefix(InstanceDir, "/"),
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(root, "sbin/init"),
		"hortus.dev/hortus/local/cmd/machine-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build init: %v: %s", err, out)
	}
	busybox, err := os.ReadFile("/usr/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/busybox"), busybox, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "sleep", "cat", "head", "ls"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	metadata, err := json.Marshal(Metadata{
		ID: "i-1", Name: "machine-1", Address: "10.1.0.5", MemoryBytes: 512 << 20, DNS: "198.18.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"metadata.json": string(metadata), "user-data": userData} {
		if err := os.WriteFile(filepath.Join(root, InstanceDir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func boot(t *testing.T, root string) *booted {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &booted{root: root, command: exec.Command(self)}
	b.command.Env = append(os.Environ(), rootVariable+"="+root)
	b.command.Stdout, b.command.Stderr = &b.console, &b.console
	b.command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true,
	}
	if err := b.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.command.Process.Kill() // Ends all processes of the machine.
		_ = b.command.Wait()
		if t.Failed() {
			t.Logf("console:\n%s", b.console.String())
		}
	})
	// The socket is reached through the machine's own view of its root.
	b.client = unit.NewClient(fmt.Sprintf("/proc/%d/root%s", b.command.Process.Pid, ControlSocket))
	within(t, "the machine accepts commands", func() bool {
		_, err := b.client.List(context.Background())
		return err == nil
	})
	return b
}

func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 2 minutes: %s", what)
		}
	}
}

func (b *booted) ended(t *testing.T) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- b.command.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("init ended with %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the machine did not end within 2 minutes")
	}
}

func TestBoot(t *testing.T) {
	root := makeRoot(t, `#hortus-machine-config
files:
- {path: /etc/example, content: {inline: {encoding: "", data: "from user data"}}}
units:
- name: long.service
  content: |
    [Service]
    ExecStart=/bin/sleep 100000
    Restart=always
    RestartSec=100ms
- name: facts.service
  content: |
    [Unit]
    After=long.service
    [Service]
    Type=oneshot
    ExecStart=/bin/sh -c 'head -1 /proc/meminfo; cat /proc/sys/kernel/hostname /etc/machine-id /etc/resolv.conf /proc/self/cgroup; ls /sys/fs/cgroup'
`)
	b := boot(t, root)
	within(t, "the units run", func() bool {
		status, err := b.client.Status(t.Context(), "facts.service")
		return err == nil && status.State == unit.Inactive && status.Message == "exit code 0"
	})
	facts, err := os.ReadFile(filepath.Join(root, LogDir, "facts.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MemTotal:         524288 kB", "machine-1", "nameserver 198.18.0.1", ":/\n"} {
		if !strings.Contains(string(facts), want) {
			t.Errorf("the machine does not show %q:\n%s", want, facts)
		}
	}

	before, err := b.client.Status(t.Context(), "long.service")
	if err != nil {
		t.Fatal(err)
	}
	kill := exec.Command("nsenter", "--target", fmt.Sprint(b.command.Process.Pid), "--pid", "--mount", "--root",
		"/bin/busybox", "kill", "-9", fmt.Sprint(before.PID))
	if out, err := kill.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	within(t, "a killed unit is started again", func() bool {
		status, err := b.client.Status(t.Context(), "long.service")
		return err == nil && status.State == unit.Active && status.PID != before.PID
	})

	// An agent changes a file; a reboot must not undo that.
	example := filepath.Join(root, "etc/example")
	if err := os.WriteFile(example, []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	bootID := func() string {
		out, err := exec.Command("nsenter", "--target", fmt.Sprint(b.command.Process.Pid), "--mount", "--root",
			"/bin/busybox", "cat",
			"/proc/sys/kernel/random/boot_id").Output()
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
	firstBoot := bootID()
	if err := Reboot(t.Context(), fmt.Sprintf("/proc/%d/root%s", b.command.Process.Pid, ControlSocket)); err != nil {
		t.Fatal(err)
	}
	b.ended(t)
	b = boot(t, root)
	within(t, "the units run after a reboot", func() bool {
		status, err := b.client.Status(t.Context(), "long.service")
		return err == nil && status.State == unit.Active
	})
	if content, err := os.ReadFile(example); err != nil || string(content) != "changed" {
		t.Errorf("after a reboot the file is %q, %v", content, err)
	}
	if secondBoot := bootID(); firstBoot == secondBoot {
		t.Errorf("the boot ID is %s before and after a reboot", secondBoot)
	}
	if err := b.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.ended(t)
}
