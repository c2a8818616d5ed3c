//go:build linux

package linux

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// modules are the kernel modules that instances and networks need; modprobe may fail for those that are built into the
// kernel.
var modules = []string{
	"overlay", "bridge", "br_netfilter", "veth", "nf_tables", "nft_masq", "nft_nat", "nft_ct", "nft_reject_ipv4",
	"nf_conntrack",
}

// atLeast are global settings that one machine with many nodes outgrows. fs.inotify.max_user_instances is shared by all
// root processes: a node uses 9, a control plane 8, and the usual default is 128.
var atLeast = map[string]int{
	"fs/inotify/max_user_instances":     8192,
	"fs/inotify/max_user_watches":       524288,
	"kernel/keys/maxkeys":               20000, // Each container takes a session keyring.
	"kernel/keys/maxbytes":              2000000,
	"net/ipv4/neigh/default/gc_thresh3": 8192, // The neighbour table is shared by all namespaces.
	"net/ipv4/neigh/default/gc_thresh2": 4096,
	"vm/max_map_count":                  262144,
}

// prepareKernel loads modules and raises limits as far as possible. A missing feature leads to an error later, with a
// better message than would be possible here: a module may be built in, a limit high enough.
func prepareKernel() {
	for _, m := range modules {
		if _, err := os.Stat(filepath.Join("/sys/module", m)); err == nil {
			continue
		}
		_ = exec.Command("modprobe", m).Run()
	}
	for name, limit := range atLeast {
		path := filepath.Join("/proc/sys", name)
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if now, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && now < limit {
			_ = os.WriteFile(path, []byte(strconv.Itoa(limit)), 0o644)
		}
	}
}

// prepareNetworkNamespace runs inside the namespace of a network. It enables forwarding, and exempts frames between
// instances from the packet filter.
func prepareNetworkNamespace() error {
	_ = setSysctl("net/bridge/bridge-nf-call-iptables", "0") // Missing unless br_netfilter is loaded, and then not needed.
	return setSysctl("net/ipv4/ip_forward", "1")
}

// prepareInstanceNamespace runs inside the namespace of an instance; some kernel settings are per namespace.
func prepareInstanceNamespace() error {
	// Replies between two pods of a bridge bypass the translation of service addresses without this.
	_ = setSysctl("net/bridge/bridge-nf-call-iptables", "1")
	return setSysctl("net/ipv4/ip_forward", "1")
}

// setSysctl writes a setting of the calling thread's namespace.
func setSysctl(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644)
}
