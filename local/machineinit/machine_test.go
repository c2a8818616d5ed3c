package machineinit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const exampleUserData = `#hortus-machine-config
files:
- path: /opt/bin/hello
  permissions: 493
  content: {inline: {encoding: b64, data: aGVsbG8K}}
- path: /etc/plain
  content: {inline: {encoding: "", data: "text\n"}}
units:
- name: a.service
  enable: true
  command: start
  content: "[Service]\nExecStart=/a\n"
  dropIns: [{name: 10.conf, content: "[Service]\n"}]
- name: containerd.service
  enable: false
`

func TestApplyUserData(t *testing.T) {
	root := t.TempDir()
	commands, err := applyUserData(root, []byte(exampleUserData))
	if err != nil {
		t.Fatal(err)
	}
	if len(commands) != 2 {
		t.Errorf("%d units to act on, want 2", len(commands))
	}
	got := map[string]string{}
	for path, mode := range map[string]os.FileMode{
		"/opt/bin/hello": 0o755, "/etc/plain": 0o644, UnitDir + "/a.service": 0o644, UnitDir + "/a.service.d/10.conf": 0o644,
	} {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		got[path] = string(content)
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode() != mode {
			t.Errorf("mode of %s is %v, want %v (%v)", path, info.Mode(), mode, err)
		}
	}
	want := map[string]string{
		"/opt/bin/hello": "hello\n", "/etc/plain": "text\n",
		UnitDir + "/a.service": "[Service]\nExecStart=/a\n", UnitDir + "/a.service.d/10.conf": "[Service]\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files mismatch (-want +got):\n%s", diff)
	}
}

func TestUserDataIsAppliedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		between func(t *testing.T, root string) string // Returns the user data of the second boot.
		applied bool
	}{
		"unchanged user data is not applied again, since agents change files": {
			func(*testing.T, string) string { return exampleUserData }, false,
		},
		"changed user data is applied": {
			func(*testing.T, string) string { return exampleUserData + "\n# new\n" }, true,
		},
		"a new root disk needs it again": {
			func(t *testing.T, root string) string {
				if err := os.RemoveAll(filepath.Join(root, "etc")); err != nil {
					t.Fatal(err)
				}
				return exampleUserData
			}, true,
		},
		"no user data means nothing to do": {
			func(*testing.T, string) string { return "" }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if _, err := applyUserData(root, []byte(exampleUserData)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(root, "/opt/bin/hello")
			if err := os.WriteFile(path, []byte("changed"), 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := applyUserData(root, []byte(tc.between(t, root))); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if applied := string(content) != "changed"; applied != tc.applied {
				t.Errorf("applied again: %t, want %t", applied, tc.applied)
			}
		})
	}
}

func TestParseUserDataFails(t *testing.T) {
	for name, raw := range map[string]string{
		"no YAML":             "files: [",
		"a relative path":     "files: [{path: etc/x, content: {inline: {data: a}}}]",
		"an unknown encoding": "files: [{path: /x, content: {inline: {encoding: gzip, data: a}}}]",
		"broken base64":       "files: [{path: /x, content: {inline: {encoding: b64, data: '***'}}}]",
		"a unit with a path":  "units: [{name: ../../x.service}]",
		"a unit without name": "units: [{enable: true}]",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseUserData([]byte(raw)); err == nil {
				t.Error("ParseUserData succeeded")
			}
		})
	}
}

func TestReadInstance(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadInstance(dir); err == nil {
		t.Error("an instance without metadata is read")
	}
	if err := os.WriteFile(filepath.Join(dir, "metadata.json"),
		[]byte(`{"id":"i-1","name":"m","cpu":2,"memoryBytes":1024,"later":"ignored"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadInstance(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Instance{Metadata: Metadata{ID: "i-1", Name: "m", CPU: 2, MemoryBytes: 1024}}, got); diff != "" {
		t.Errorf("instance mismatch (-want +got):\n%s", diff)
	}
}

func TestWriteContainerd(t *testing.T) {
	root := t.TempDir()
	kept := filepath.Join(root, "etc/containerd/config.toml")
	if err := writeFile(kept, []byte("# mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	instance := &Instance{
		Metadata: Metadata{ID: "i-1", Registry: "https://198.18.0.1:7443", RegistryPassword: "secret"}, CA: []byte("ca"),
	}
	if err := writeContainerd(root, instance); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(kept); err != nil || string(content) != "# mine" {
		t.Errorf("an existing configuration was replaced: %q, %v", content, err)
	}
	hosts, err := os.ReadFile(filepath.Join(root, "etc/containerd/certs.d/_default/hosts.toml"))
	if err != nil {
		t.Fatal(err)
	}
	want := "[host.\"https://198.18.0.1:7443\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = \"/etc/containerd/certs.d/_default/ca.crt\"\n" +
		"  [host.\"https://198.18.0.1:7443\".header]\n    authorization = \"Basic aS0xOnNlY3JldA==\"\n"
	if diff := cmp.Diff(want, string(hosts)); diff != "" {
		t.Errorf("hosts.toml mismatch (-want +got):\n%s", diff)
	}
}

func TestKubeletArgs(t *testing.T) {
	for name, tc := range map[string]struct {
		metadata Metadata
		want     string
	}{
		"a machine smaller than its host reserves the rest": {
			Metadata{Name: "m", Address: "10.1.0.2", ProviderID: "local:///r/i", CPU: 2},
			"KUBELET_EXTRA_ARGS=--hostname-override=m --node-ip=10.1.0.2 --provider-id=local:///r/i --system-reserved=cpu=6\n",
		},
		"a machine larger than its host gets all of it": {
			Metadata{Name: "m", CPU: 16}, "KUBELET_EXTRA_ARGS=--hostname-override=m\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, string(kubeletArgs(tc.metadata, 8))); diff != "" {
				t.Errorf("arguments mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitMeminfo(t *testing.T) {
	const host = "MemTotal:       24600000 kB\nMemFree:          100000 kB\nMemAvailable:   20000000 kB\nHugePages_Total:       0\nVmallocTotal:   34359738367 kB\n"
	got, changed := limitMeminfo([]byte(host), 2<<30)
	want := "MemTotal:        2097152 kB\nMemFree:          100000 kB\nMemAvailable:    2097152 kB\nHugePages_Total:       0\nVmallocTotal:   34359738367 kB\n"
	if diff := cmp.Diff(want, string(got)); diff != "" || !changed {
		t.Errorf("meminfo mismatch, changed %t (-want +got):\n%s", changed, diff)
	}
	for _, limit := range []int64{0, 1 << 40} {
		if _, changed := limitMeminfo([]byte(host), limit); changed {
			t.Errorf("a limit of %d bytes changes the memory of the host", limit)
		}
	}
}

func TestCgroupParsing(t *testing.T) {
	got := hierarchies([]byte("12:cpu,cpuacct:/x\n5:memory:/a:b\n1:name=systemd:/\n0::/x\n"))
	want := []hierarchy{{"cpu,cpuacct", "cpu,cpuacct"}, {"memory", "memory"}, {"systemd", "name=systemd"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hierarchy{})); diff != "" {
		t.Errorf("hierarchies mismatch (-want +got):\n%s", diff)
	}
	mounts := "24 1 0:22 / /sys rw - sysfs sysfs rw\n30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw\n32 24 0:28 / /sys/fs/cgroups rw - x x rw\n"
	points := mountPointsBelow([]byte(mounts), cgroupRoot)
	if diff := cmp.Diff([]string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory"}, points); diff != "" {
		t.Errorf("mount points mismatch (-want +got):\n%s", diff)
	}
}

func TestOwnsCgroups(t *testing.T) {
	for name, tc := range map[string]struct {
		cgroups string
		want    bool
	}{
		"version 1":                          {"5:memory:/hortus/i\n1:name=systemd:/hortus/i\n0::/\n", true},
		"version 1, one hierarchy is shared": {"5:memory:/hortus/i\n4:pids:/\n0::/hortus\n", false},
		"version 2":                          {"0::/hortus/i\n", true},
		"version 2, in the root":             {"0::/\n", false},
		"nothing known":                      {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ownsCgroups([]byte(tc.cgroups)); got != tc.want {
				t.Errorf("ownsCgroups = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestParseSysctls(t *testing.T) {
	got := parseSysctls([]byte("# comment\n; comment\nnet.ipv4.ip_forward = 1\n-vm.x=2\nnonsense\n"))
	want := []sysctl{{"net.ipv4.ip_forward", "1"}, {"vm.x", "2"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sysctl{})); diff != "" {
		t.Errorf("settings mismatch (-want +got):\n%s", diff)
	}
}

func TestInstall(t *testing.T) {
	image, root := t.TempDir(), t.TempDir()
	write := func(dir, path, content string, mode os.FileMode) {
		t.Helper()
		if err := writeFile(filepath.Join(dir, path), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(image, "usr/bin/tool", "new", 0o755)
	write(image, "etc/os-release", "new", 0o644)
	write(image, "etc/passwd", "new", 0o644)
	write(image, "var/lib/x", "new", 0o644)
	if err := os.Symlink("usr/bin", filepath.Join(image, "bin")); err != nil {
		t.Fatal(err)
	}
	write(root, "usr/bin/tool", "old", 0o644)
	write(root, "opt/bin/kubelet", "installed", 0o755)
	write(root, "etc/passwd", "changed", 0o644)
	for range 2 { // It can be repeated.
		if err := install(image, root); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, path := range []string{
		"usr/bin/tool", "bin/tool", "opt/bin/kubelet", "etc/os-release", "etc/passwd", "var/lib/x",
	} {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			content = []byte("(missing)")
		}
		got[path] = string(content)
	}
	want := map[string]string{
		"usr/bin/tool": "new", "bin/tool": "new", "opt/bin/kubelet": "installed", "etc/os-release": "new",
		"etc/passwd": "changed", "var/lib/x": "(missing)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("root mismatch (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(root, "usr/bin/tool")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode of the program: %v, %v", info.Mode(), err)
	}
}

func TestInterruptedInstallShowsTheOldVersion(t *testing.T) {
	image, root := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		// It cannot replace a directory.
		filepath.Join(image, "etc/os-release"): "new", filepath.Join(image, "usr"): "a file",
		filepath.Join(root, "etc/os-release"): "old", filepath.Join(root, "usr/bin/tool"): "old",
	} {
		if err := writeFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := install(image, root); err == nil {
		t.Error("install returned no error")
	}
	if version, err := os.ReadFile(filepath.Join(root, "etc/os-release")); err != nil || string(version) != "old" {
		t.Errorf("version after an interruption: %q, %v", version, err)
	}
}

func TestUpdateRefusesWhatIsNoVersion(t *testing.T) {
	for _, version := range []string{"", "../x", "1.0.0 --help", "-x", "a/b"} {
		err := Update(t.Context(), t.TempDir(), version, nil)
		if err == nil || !strings.Contains(err.Error(), "invalid arguments") {
			t.Errorf("Update(%q): %v", version, err)
		}
	}
}

func TestControlRejectsNonsense(t *testing.T) {
	for _, args := range [][]string{nil, {"explode"}, {"start"}, {"list", "x"}, {"restart", "a", "b"}} {
		err := Control(t.Context(), filepath.Join(t.TempDir(), "none"), args, os.Stdout)
		if err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("Control(%q): %v, want the usage", args, err)
		}
	}
}
