package images

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"hortus.dev/hortus/local/components"
)

// program is a program of the distribution, with its path and its other names in an image.
type program struct {
	name, path string
	links      []string
}

// distributionPrograms come from the distribution. Kubelet and runc mount with the real mount; busybox's lacks options.
var distributionPrograms = []program{
	{name: "conntrack", path: "usr/sbin/conntrack"},
	{name: "mount", path: "usr/bin/mount"},
	{name: "nft", path: "usr/sbin/nft"},
	{name: "umount", path: "usr/bin/umount"},
	// kube-proxy's iptables mode, which is the default of Shoots; this one program writes nftables underneath.
	{name: "xtables-nft-multi", path: "usr/sbin/xtables-nft-multi", links: []string{
		"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore",
	}},
}

// protocols is the file from which nft takes the names of protocols. Without it nft lists them as numbers, and
// kube-proxy, which compares nft's lists with the desired ones once an hour and after each start, would remove all
// Services from them.
const protocols = `icmp 1 ICMP
tcp 6 TCP
udp 17 UDP
ipv6-icmp 58 IPv6-ICMP
sctp 132 SCTP
`

// distribution collects the programs of the distribution with their libraries, at the places where they look for them.
func distribution(ctx context.Context) ([]Entry, error) {
	// iptables loads its matches and targets from here: the path is compiled in.
	plugins, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil || len(plugins) == 0 {
		return nil, fmt.Errorf("no iptables extensions in /usr/lib/*/xtables")
	}
	entries, err := collect(ctx, distributionPrograms, plugins...)
	if err != nil {
		return nil, err
	}
	shell, err := busybox(ctx)
	if err != nil {
		return nil, err
	}
	entries = append(entries, Entry{Path: "etc/protocols", Content: []byte(protocols)})
	return append(entries, shell...), nil
}

// collect returns programs and plugins, which stay where they are, with the libraries of all.
func collect(ctx context.Context, programs []program, plugins ...string) ([]Entry, error) {
	var entries []Entry
	dynamic := slices.Clone(plugins)
	for _, p := range programs {
		source, err := components.LookProgram(p.name)
		if err != nil {
			return nil, err
		}
		dynamic = append(dynamic, source)
		entries = append(entries, Entry{Path: p.path, Source: source})
		for _, link := range p.links {
			entries = append(entries, Entry{Path: filepath.Join(filepath.Dir(p.path), link), Symlink: filepath.Base(p.path)})
		}
	}
	for _, p := range plugins {
		entries = append(entries, Entry{Path: p, Source: p, Mode: 0o644})
	}
	libraries, err := sharedLibraries(ctx, dynamic)
	if err != nil {
		return nil, err
	}
	for _, l := range libraries {
		entries = append(entries, Entry{Path: l, Source: l})
	}
	return entries, nil
}

// sharedLibraries returns the libraries of files as the dynamic loader finds them, which knows the search paths of this
// machine; it searches the given folders first.
func sharedLibraries(ctx context.Context, files []string, folders ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "ldd", files...)
	if len(folders) > 0 {
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(folders, ":"))
	}
	var messages bytes.Buffer
	cmd.Stderr = &messages
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list shared libraries: %w\n%s", err, messages.Bytes())
	}
	return parseLdd(string(output))
}

// lddLine matches "name => /path (0x1234)" and "/path (0x1234)"; the kernel's own linux-vdso has no path.
var lddLine = regexp.MustCompile(`^\s+(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$`)

// parseLdd returns the sorted paths of the libraries in the output of ldd.
func parseLdd(output string) ([]string, error) {
	var paths []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if strings.Contains(line, "not found") {
			return nil, fmt.Errorf("shared library is missing: %s", strings.TrimSpace(line))
		}
		if m := lddLine.FindStringSubmatch(line); m != nil {
			paths = append(paths, m[1])
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// notLinked are applets that must not shadow the real program, or that make no sense inside a machine.
var notLinked = map[string]bool{
	"busybox": true, "init": true, "linuxrc": true, "mount": true, "umount": true, "nuke": true, "run-init": true,
	"dpkg": true, "dpkg-deb": true, "rpm": true, "rpm2cpio": true,
}

// busybox provides shell and tools, in one static program with many names.
func busybox(ctx context.Context) ([]Entry, error) {
	source, err := components.StaticBusybox()
	if err != nil {
		return nil, err
	}
	list, err := exec.CommandContext(ctx, source, "--list-full").Output()
	if err != nil {
		return nil, fmt.Errorf("list applets of %s: %w", source, err)
	}
	entries := []Entry{{Path: "bin/busybox", Source: source}}
	for applet := range strings.FieldsSeq(string(list)) {
		if !notLinked[filepath.Base(applet)] {
			entries = append(entries, Entry{Path: applet, Symlink: "/bin/busybox"})
		}
	}
	return entries, nil
}
