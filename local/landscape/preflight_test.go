package landscape

import (
	"strings"
	"testing"
)

func fitHost() Host {
	return Host{OS: "linux", Architecture: "amd64", AvailableMemoryBytes: 8 << 30, FreeDiskBytes: 50 << 30,
		StateDir: "/var/lib/hortus",
		Cgroups:  []string{"cpu", "cpuacct", "memory", "pids"}, Filesystems: []string{"nodev", "overlay", "ext4"}}
}

func TestProblems(t *testing.T) {
	if problems := Problems(fitHost()); len(problems) != 0 {
		t.Errorf("a fit host has problems: %q", problems)
	}
	for name, tc := range map[string]struct {
		change func(*Host)
		want   string
	}{
		"another operating system": {func(h *Host) { h.OS = "darwin" }, "Linux only"},
		"another architecture":     {func(h *Host) { h.Architecture = "riscv64" }, "amd64 and arm64"},
		"an ordinary user":         {func(h *Host) { h.UserID = 1000 }, "run it as root"},
		"too little memory":        {func(h *Host) { h.AvailableMemoryBytes = 2 << 30 }, "2.0 GiB of memory"},
		"a full disk": {
			func(h *Host) { h.FreeDiskBytes = 1 << 30 }, "1.0 GiB are free on the disk of /var/lib/hortus",
		},
		"state on overlay":  {func(h *Host) { h.StateOnOverlay = true }, "--state-dir"},
		"no cgroups":        {func(h *Host) { h.Cgroups = nil }, `cgroup controller "memory"`},
		"no overlay":        {func(h *Host) { h.Filesystems = nil }, "modprobe overlay"},
		"a missing program": {func(h *Host) { h.MissingPrograms = []string{"umount"} }, "apt-get install mount"},
		"a taken port":      {func(h *Host) { h.BusyPorts = []int{53} }, "port 53"},
		"a taken network": {
			func(h *Host) { h.ForeignRoutes = []string{"198.18.0.1/16 on eth1"} }, "198.18.0.1/16 on eth1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := fitHost()
			tc.change(&host)
			if got := strings.Join(Problems(host), "\n"); !strings.Contains(got, tc.want) {
				t.Errorf("Problems() = %q, want something with %q", got, tc.want)
			}
		})
	}
	t.Run("a landscape that is up may be repaired with few free resources", func(t *testing.T) {
		host := fitHost()
		host.CloudRuns, host.AvailableMemoryBytes, host.FreeDiskBytes = true, 1<<30, 1<<30
		if problems := Problems(host); len(problems) > 0 {
			t.Errorf("problems: %q", problems)
		}
	})
	t.Run("all problems are reported at once", func(t *testing.T) {
		if got := len(Problems(Host{OS: "linux", Architecture: "amd64", UserID: 1})); got < 6 {
			t.Errorf("an empty host has %d problems, want all of them", got)
		}
	})
}
