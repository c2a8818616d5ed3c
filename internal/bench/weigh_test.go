package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInstanceAndPodOfCgroups(t *testing.T) {
	const uid, hash = "97f93a86-44a1-4b70-ac04-90b8124d939d", "9ca874fe27af99de06e857f01c2393a5"
	for name, tc := range map[string]struct{ file, instance, pod string }{
		"a process of the host": {file: "4:memory:/user.slice\n0::/\n"},
		"both versions: only version 1 names the pod": {
			file:     "4:memory:/hortus/i-2ae5d2aaf3/kubepods/burstable/pod" + uid + "/7206ea25\n0::/hortus/i-2ae5d2aaf3\n",
			instance: "i-2ae5d2aaf3", pod: uid,
		},
		"version 2 with a static pod": {
			file: "0::/hortus/i-ab12/kubepods/pod" + hash + "/4d91\n", instance: "i-ab12", pod: hash,
		},
		"the machine itself":    {file: "0::/hortus/i-ab12/init\n", instance: "i-ab12"},
		"a folder like a pod's": {file: "0::/hortus/i-ab12/podman/x\n", instance: "i-ab12"},
	} {
		t.Run(name, func(t *testing.T) {
			instance, pod := parseCgroups([]byte(tc.file))
			if instance != tc.instance || pod != tc.pod {
				t.Errorf("instance %q and pod %q, want %q and %q", instance, pod, tc.instance, tc.pod)
			}
		})
	}
}

func TestCPUTimeBehindAStrangeName(t *testing.T) {
	got, err := parseStat([]byte("42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 100 1 1"))
	if err != nil || got != 2*time.Second {
		t.Errorf("CPU time is %s (%v), want 2s", got, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S 1 42 42 0 -1 4194560 1 0 0 0 x 50 0"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q counts as a process", bad)
		}
	}
}

func TestProcessesAreReadAndKernelThreadsLeftOut(t *testing.T) {
	proc := t.TempDir()
	write := func(pid int, files map[string]string) {
		for name, content := range files {
			dir := filepath.Join(proc, fmt.Sprint(pid))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	stat := func(ticks int) string {
		return fmt.Sprintf("7 (x) S 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 1 1 1", ticks)
	}
	write(7, map[string]string{
		"smaps_rollup": "0-1 ---p 0 0:0 0 [rollup]\nRss:  300 kB\nPss:  200 kB\nPss_Anon: 100 kB\n",
		"cgroup":       "0::/hortus/i-ab12\n", "stat": stat(100), "cmdline": "/usr/bin/a\x00--flag\x00",
		"io": "rchar: 9\nwchar: 8\nwrite_bytes: 4096\ncancelled_write_bytes: 96\n",
	})
	write(8, map[string]string{"smaps_rollup": "", "cgroup": "0::/\n", "stat": stat(1), "cmdline": ""})
	write(9, map[string]string{"stat": stat(1)}) // Ends while it is read.
	got, err := readProcesses(proc)
	if err != nil {
		t.Fatal(err)
	}
	want := []process{{
		pid: 7, instance: "i-ab12", command: "/usr/bin/a --flag", proportional: 200 << 10, cpu: time.Second, written: 4000,
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(process{})); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

func newGround() *ground {
	return &ground{
		pods: map[string]podKey{
			"etcd": {"garden", "hortus-etcd-0"}, "api": {"garden", "hortus-apiserver-1"}, "gardenlet": {"garden", "gardenlet-1"},
			"provider": {"extension-provider-local-x", "provider-local-1"}, "cp": {"shoot--dev--demo", "kube-apiserver-1"},
			"dns": {"kube-system", "coredns-1"},
		},
		own:   map[string]bool{"i-1": true, "i-2": true},
		marks: []string{"/var/lib/hortus"},
	}
}

func TestProcessesAreSortedIntoClasses(t *testing.T) {
	for name, tc := range map[string]struct {
		process process
		want    Class
	}{
		"a control plane": {process{instance: "i-2", pod: "cp"}, ClassControlPlanes},
		"the process that runs an etcd": {process{
			instance: "i-2", pod: "cp", command: "/usr/local/bin/hortus etcd --epoch=1",
		}, ClassBackups},
		"its etcd": {process{
			instance: "i-2", pod: "cp", command: "/usr/local/bin/etcd --name=hortus etcd ",
		}, ClassControlPlanes},
		"a gardenlet":             {process{instance: "i-1", pod: "gardenlet"}, ClassManagers},
		"an extension":            {process{instance: "i-1", pod: "provider"}, ClassManagers},
		"the garden's API server": {process{instance: "i-1", pod: "api"}, ClassGardenAPI},
		"the garden's etcd":       {process{instance: "i-1", pod: "etcd"}, ClassGardenAPI},
		"DNS of a seed":           {process{instance: "i-1", pod: "dns"}, ClassSeeds},
		"a seed's kubelet":        {process{instance: "i-1"}, ClassSeeds},
		"a machine of a Shoot":    {process{instance: "i-9", pod: "unknown"}, ClassMachines},
		"the cloud": {
			process{command: "hortus cloud serve --state-dir /var/lib/hortus"}, ClassHost,
		},
		"other processes on the host do not count": {process{command: "go test"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := newGround().classify(tc.process)
			if !ok {
				got = ""
			}
			if got != tc.want {
				t.Errorf("class is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWeightsAndWorkPerClass(t *testing.T) {
	g := newGround()
	before := []process{
		{pid: 1, instance: "i-1", pod: "gardenlet", command: "a", proportional: 10, cpu: time.Second, written: 30},
		{pid: 2, instance: "i-1", pod: "provider", command: "b", proportional: 20, cpu: time.Second},
		{pid: 3, command: "other", proportional: 1000, cpu: time.Hour},
	}
	after := []process{
		{pid: 1, instance: "i-1", pod: "gardenlet", command: "a", proportional: 12, cpu: 3 * time.Second, written: 100},
		{pid: 2, instance: "i-1", pod: "cp", command: "new process with an old PID", proportional: 30, cpu: 9 * time.Second},
		{pid: 4, instance: "i-1", pod: "provider", command: "b", proportional: 22, cpu: time.Second},
	}
	managers := g.weigh(before)[slices.Index(classes, ClassManagers)]
	if diff := cmp.Diff(Weight{Class: ClassManagers, Processes: 2, Bytes: 30, CPU: 2 * time.Second},
		managers); diff != "" {
		t.Errorf("weight of managers (-want +got):\n%s", diff)
	}
	want := map[Class]work{ClassManagers: {cpu: 2 * time.Second, written: 70}}
	if diff := cmp.Diff(want, g.worked(before, after), cmp.AllowUnexported(work{})); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}

func TestProgramOf(t *testing.T) {
	for command, want := range map[string]string{
		"":                                     "",
		"/usr/local/bin/kube-apiserver --a=b":  "kube-apiserver",
		"/usr/local/bin/hortus etcd --epoch=1": "hortus etcd",
		"hortus --help":                        "hortus",
		"/usr/local/bin/control-plane machine-controller --namespace=a": "control-plane machine-controller",
	} {
		if got := programOf(command); got != want {
			t.Errorf("programOf(%q) = %q, want %q", command, got, want)
		}
	}
}

func TestWeighPrograms(t *testing.T) {
	etcd := process{pid: 1, instance: "i-2", pod: "cp", command: "/bin/etcd --a", proportional: 10, cpu: time.Second}
	later := etcd
	later.cpu = 3 * time.Second
	got := newGround().weighPrograms([]process{etcd}, []process{later,
		// The process began meanwhile.
		{pid: 2, instance: "i-2", pod: "cp", command: "/bin/etcd --b", proportional: 20, cpu: time.Hour},
		{pid: 3, instance: "i-1", pod: "gardenlet", command: "/bin/hortus gardenlet", proportional: 99}})
	want := []ProgramUse{{Program: "etcd", Processes: 1, Bytes: 15, IdleMilliCPU: 100}}
	if diff := cmp.Diff(want, perShoot(got, 2, 10)); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
}
