package images

import "fmt"

const passwd = `root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`

const group = `root:x:0:
nogroup:x:65534:
`

// machineFiles returns the files that a root file system needs besides programs. Host name, hosts, resolv.conf and
// machine-id differ from machine to machine, so process 1 writes them at boot, together with containerd's configuration
// and unit.
func machineFiles() []Entry {
	entries := []Entry{
		temporary,
		{Path: "var/tmp", Mode: 0o1777, Dir: true},
		{Path: "root", Mode: 0o700, Dir: true},
		{Path: "var/run", Symlink: "/run"},
		{Path: "etc/mtab", Symlink: "/proc/self/mounts"},
		{Path: "etc/passwd", Content: []byte(passwd)},
		{Path: "etc/group", Content: []byte(group)},
		{Path: "etc/nsswitch.conf", Content: []byte("hosts: files dns\n")},
	}
	for _, dir := range []string{
		"dev", "proc", "run", "sys", "mnt", "opt/bin", "etc/cni/net.d", "etc/containerd/certs.d", "etc/containerd/conf.d",
		"etc/kubernetes/manifests", "etc/systemd/system", "usr/lib/systemd/system", "var/lib/containerd", "var/lib/kubelet",
		"var/log/pods",
	} {
		entries = append(entries, Entry{Path: dir, Dir: true})
	}
	return entries
}

// osRelease returns the content of os-release, from which nodes report their OS image.
func osRelease(version string) []byte {
	return fmt.Appendf(nil, `NAME="Hortus Machine"
ID=hortus-machine
VERSION="%[1]s"
VERSION_ID="%[1]s"
PRETTY_NAME="Hortus Machine %[1]s"
`, version)
}
