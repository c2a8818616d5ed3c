//go:build landscape

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"
)

// host is what a landscape might leave behind on a machine.
type host struct {
	processes, mounts, interfaces, namespaces, tables, cgroups, files []string
}

// landscapePrograms are the programs of a landscape, in addition to those of Kubernetes.
var landscapePrograms = []string{
	"hortus", "containerd", "containerd-shim-runc-v2", "runc", "init", "kubelet", "etcd", "coredns", "pause", "echo",
}

func observeHost(t *testing.T) host {
	t.Helper()
	var h host
	here, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range programs {
		path, err := os.Readlink(link)
		if err != nil {
			continue // Ended meanwhile, or a thread of the kernel.
		}
		if strings.Contains(path, "/.build/") && !strings.HasPrefix(path, here+"/") || ofOtherTest(filepath.Dir(link)) {
			continue // It belongs to tests of another checkout, or to other tests of this one.
		}
		name := filepath.Base(strings.TrimSuffix(path, " (deleted)"))
		if slices.Contains(landscapePrograms, name) || strings.HasPrefix(name, "kube-") {
			h.processes = append(h.processes, filepath.Base(filepath.Dir(link))+" "+path)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		h.mounts = append(h.mounts, strings.Fields(line)[4])
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		h.interfaces = append(h.interfaces, i.Name)
	}
	h.namespaces = names("/run/netns", "/var/run/netns")
	connection, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := connection.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		h.tables = append(h.tables, table.Name)
	}
	for _, pattern := range []string{
		"/sys/fs/cgroup/hortus*", "/sys/fs/cgroup/*/hortus*", "/sys/fs/cgroup/kubepods*", "/sys/fs/cgroup/*/kubepods*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		h.cgroups = append(h.cgroups, found...)
	}
	for _, path := range []string{stateDir, "/run/hortus", "/run/containerd/io.containerd.runtime.v2.task"} {
		if _, err := os.Stat(path); err == nil {
			h.files = append(h.files, path)
		}
	}
	return h
}

// ofOtherTest says whether a process, named by its folder in /proc, was started by another test program: 'make test'
// runs unit tests at the same time.
func ofOtherTest(process string) bool {
	own := strconv.Itoa(os.Getpid())
	for range 100 { // Far more than a process has ancestors; one that ends meanwhile has none.
		status, err := os.ReadFile(filepath.Join(process, "status"))
		if err != nil {
			return false
		}
		_, after, _ := strings.Cut(string(status), "\nPPid:\t")
		parent, _, _ := strings.Cut(after, "\n")
		if parent == own || parent == "0" {
			return false
		}
		process = filepath.Join("/proc", parent)
		program, err := os.Readlink(filepath.Join(process, "exe"))
		if err == nil && strings.HasSuffix(program, ".test") {
			return true
		}
	}
	return false
}

func names(folders ...string) []string {
	var all []string
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // A missing folder has no entries.
		}
		for _, entry := range entries {
			all = append(all, entry.Name())
		}
	}
	return all
}

// compare reports what exists now and did not exist before.
func (h host) compare(t *testing.T, now host) {
	t.Helper()
	for _, kind := range []struct {
		name          string
		before, after []string
	}{
		{"processes", h.processes, now.processes}, {"mounts", h.mounts, now.mounts},
		{"interfaces", h.interfaces, now.interfaces},
		{"network namespaces", h.namespaces, now.namespaces}, {"nft tables", h.tables, now.tables},
		{"cgroups", h.cgroups, now.cgroups}, {"files", h.files, now.files},
	} {
		left := slices.DeleteFunc(slices.Clone(kind.after), func(s string) bool { return slices.Contains(kind.before, s) })
		if len(left) > 0 {
			t.Errorf("%s left behind: %q", kind.name, left)
		}
	}
}
