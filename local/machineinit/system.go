package machineinit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sysctls are set at every boot, as far as the host allows. The first is needed to route for pods, the second so that
// replies between pods of one bridge pass connection tracking. The inotify limits belong to the whole host and are
// shared by all its machines, each of which uses 9 instances; the usual 128 are used up by a dozen machines.
var sysctls = []sysctl{
	{"net.ipv4.ip_forward", "1"},
	{"net.bridge.bridge-nf-call-iptables", "1"},
	{"net.ipv6.conf.all.forwarding", "1"},
	{"fs.inotify.max_user_instances", "8192"},
	{"fs.inotify.max_user_watches", "524288"},
}

type sysctl struct{ key, value string }

// set writes the setting unless it is at least as high already: limits of the host are never lowered.
func (s sysctl) set() error {
	path := filepath.Join("/proc/sys", strings.ReplaceAll(s.key, ".", "/"))
	current, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.key, err)
	}
	have, haveErr := strconv.ParseInt(strings.TrimSpace(string(current)), 10, 64)
	want, wantErr := strconv.ParseInt(s.value, 10, 64)
	if haveErr == nil && wantErr == nil && have >= want {
		return nil
	}
	if err := os.WriteFile(path, []byte(s.value), 0o644); err != nil {
		return fmt.Errorf("set %s: %w", s.key, err)
	}
	return nil
}

// fileSysctls reads /etc/sysctl.d/*.conf.
func fileSysctls() ([]sysctl, error) {
	paths, err := filepath.Glob("/etc/sysctl.d/*.conf")
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var list []sysctl
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read sysctls: %w", err)
		}
		list = append(list, parseSysctls(content)...)
	}
	return list, nil
}

func parseSysctls(content []byte) []sysctl {
	var list []sysctl
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		key, value, found := strings.Cut(line, "=")
		if !found || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		key = strings.TrimPrefix(strings.TrimSpace(key), "-") // "-": failures are ignored, as here for all.
		list = append(list, sysctl{key, strings.TrimSpace(value)})
	}
	return list
}

// shareMounts lets mounts made by containers with bidirectional propagation show up in the machine and in others.
func shareMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

// hideMemory makes the machine look as small as its type: kubelets and cAdvisor take the capacity from /proc/meminfo,
// which otherwise shows the host. The file is a copy, so its figures for free memory stand still; programs that measure
// usage inside a machine read cgroups. Pods have their own /proc and are not affected.
func hideMemory(bytes int64) error {
	const copyPath, target = "/run/hortus-machine/meminfo", "/proc/meminfo"
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("detach %s: %w", target, err)
	}
	host, err := os.ReadFile(target)
	if err != nil {
		return fmt.Errorf("read memory information: %w", err)
	}
	limited, changed := limitMeminfo(host, bytes)
	if !changed {
		return nil
	}
	if err := writeFile(copyPath, limited, 0o444); err != nil {
		return fmt.Errorf("write memory information: %w", err)
	}
	if err := unix.Mount(copyPath, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", target, err)
	}
	return nil
}

// showBootID gives each boot of the machine an ID of its own, as a kernel would. Node agents and kubelets distinguish
// boots by it, and the host's stays the same while a machine reboots.
func showBootID() error {
	const ownPath, target = "/run/hortus-machine/boot-id", "/proc/sys/kernel/random/boot_id"
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("detach %s: %w", target, err)
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid") // A new one with each read.
	if err != nil {
		return fmt.Errorf("make boot ID: %w", err)
	}
	if err := writeFile(ownPath, id, 0o444); err != nil {
		return fmt.Errorf("write boot ID: %w", err)
	}
	if err := unix.Mount(ownPath, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", target, err)
	}
	return nil
}

// limitMeminfo returns meminfo with no figure of main memory above the limit, and whether the limit is below the total.
func limitMeminfo(meminfo []byte, limit int64) ([]byte, bool) {
	const total = "MemTotal:"
	limitKiB := limit / 1024
	var out bytes.Buffer
	lower := false
	lines := bufio.NewScanner(bytes.NewReader(meminfo))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[2] == "kB" && !strings.HasPrefix(fields[0], "Vmalloc") {
			value, err := strconv.ParseInt(fields[1], 10, 64)
			lower = lower || fields[0] == total && err == nil && value > limitKiB
			if err == nil && value > limitKiB {
				fmt.Fprintf(&out, "%-15s %8d kB\n", fields[0], limitKiB)
				continue
			}
		}
		out.WriteString(lines.Text() + "\n")
	}
	return out.Bytes(), limit > 0 && lower
}

// rewrite replaces the content of a file that may be a bind mount, where it cannot be renamed over.
func rewrite(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
