package landscape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// minMemoryBytes is the memory that a landscape with one Shoot needs: 3 GB for garden and two seeds, 1 GB for the
	// Shoot.
	minMemoryBytes = 4 << 30
	// minDiskBytes holds the images once in each of the two seeds and the machines (about 1 GB each), and etcd data.
	minDiskBytes = 6 << 30
	// superMagicOverlay and superMagicTmpfs are file system types, statfs(2).
	superMagicOverlay = 0x794c7630
)

// Ports of the cloud on its public address. A foreign listener on one of them would make the cloud fail late.
var cloudPorts = []int{53, 7443}

// Host is the state of a machine that the landscape checks before it changes anything.
type Host struct {
	OS, Architecture     string
	UserID               int
	AvailableMemoryBytes uint64
	FreeDiskBytes        uint64
	StateDir             string   // Where the landscape keeps its state, for the messages.
	CloudRuns            bool     // The landscape is up, at least in part: what it uses already is not required again.
	StateOnOverlay       bool     // The file system of the state folder is overlayfs.
	Cgroups              []string // Names of usable cgroup controllers, of either cgroup version.
	Filesystems          []string // From /proc/filesystems, after an attempt to load overlay.
	MissingPrograms      []string // Programs that are not in PATH.
	BusyPorts            []int    // Ports of cloudPorts that something else listens on.
	ForeignRoutes        []string // Routes that overlap the public network of the cloud and lead elsewhere.
}

// programPackages names the Debian package of each program that the landscape runs on the host.
var programPackages = map[string]string{"mount": "mount", "umount": "mount"}

// Problems lists everything that keeps the landscape from running on the host, each with a remedy.
func Problems(h Host) []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	if h.OS != "linux" {
		add("the operating system is %s: the landscape runs on Linux only", h.OS)
	}
	if h.Architecture != "amd64" && h.Architecture != "arm64" {
		add("the architecture is %s: amd64 and arm64 are supported", h.Architecture)
	}
	if h.UserID != 0 {
		add("not root: the landscape makes network namespaces and containers; run it as root, for instance with sudo")
	}
	if !h.CloudRuns && h.AvailableMemoryBytes < minMemoryBytes {
		add("%.1f GiB of memory are available: at least %d GiB are needed; end other programs or use a larger machine",
			float64(h.AvailableMemoryBytes)/(1<<30), minMemoryBytes>>30)
	}
	if !h.CloudRuns && h.FreeDiskBytes < minDiskBytes {
		add("%.1f GiB are free on the disk of %s: at least %d GiB are needed; free some or choose another folder with --state-dir",
			float64(h.FreeDiskBytes)/(1<<30), h.StateDir, minDiskBytes>>30)
	}
	if h.StateOnOverlay {
		add("%s lies on an overlay file system, on which containers can't be stacked: choose a folder on a disk with --state-dir", h.StateDir)
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(h.Cgroups, controller) {
			add("the cgroup controller %q is missing: mount the cgroup file systems or enable the controller in the kernel",
				controller)
		}
	}
	if !slices.Contains(h.Filesystems, "overlay") {
		add("the kernel has no overlay file system: load it with 'modprobe overlay'")
	}
	for _, program := range h.MissingPrograms {
		add("the program %q is missing: install it with 'apt-get install %s'", program, programPackages[program])
	}
	for _, port := range h.BusyPorts {
		add("port %d of %s is in use by another program: stop it ('ss -lntup' shows which one)", port, publicAddress)
	}
	for _, route := range h.ForeignRoutes {
		add("the network %s is used already (%s): the cloud of the landscape needs it", publicNetwork, route)
	}
	return problems
}

// ErrUnfit says that the host can't run a landscape; its text lists every reason.
var ErrUnfit = errors.New("this machine can't run the landscape")

// Preflight checks the host and returns all problems in one error. It changes nothing, except that the overlay module
// is loaded where the kernel has it as a module.
func Preflight(stateDir string, cloudRuns bool) error {
	host, err := observeHost(stateDir, cloudRuns)
	if err != nil {
		return err
	}
	problems := Problems(host)
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n  - %s", ErrUnfit, strings.Join(problems, "\n  - "))
}

func observeHost(stateDir string, cloudRuns bool) (Host, error) {
	h := Host{OS: runtime.GOOS, Architecture: runtime.GOARCH, UserID: os.Geteuid(), StateDir: stateDir}
	var err error
	if h.AvailableMemoryBytes, err = availableMemory(); err != nil {
		return h, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(existingParent(stateDir), &fs); err != nil {
		return h, fmt.Errorf("stat file system of %s: %w", stateDir, err)
	}
	h.FreeDiskBytes = fs.Bavail * uint64(fs.Bsize)
	h.CloudRuns = cloudRuns
	h.StateOnOverlay = int64(fs.Type) == superMagicOverlay
	h.Cgroups = cgroupControllers()
	if h.UserID == 0 {
		// A kernel with overlay built in has no such module; Problems judges by what the kernel lists afterwards.
		_ = exec.Command("modprobe", "overlay").Run()
	}
	h.Filesystems = procFilesystems()
	for program := range programPackages {
		if _, err := exec.LookPath(program); err != nil {
			h.MissingPrograms = append(h.MissingPrograms, program)
		}
	}
	slices.Sort(h.MissingPrograms)
	if !cloudRuns {
		h.BusyPorts = busyPorts()
		h.ForeignRoutes = foreignRoutes()
	}
	return h, nil
}

func availableMemory() (uint64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read available memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kibibytes, err := strconv.ParseUint(fields[1], 10, 64)
			return kibibytes << 10, err
		}
	}
	return 0, errors.New("read available memory: /proc/meminfo has no MemAvailable")
}

func existingParent(path string) string {
	for path != "/" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = path[:strings.LastIndexByte(strings.TrimRight(path, "/"), '/')+1]
		path = "/" + strings.Trim(path, "/")
	}
	return "/"
}

func cgroupControllers() []string {
	if data, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil { // cgroup v2
		return strings.Fields(string(data))
	}
	entries, err := os.ReadDir("/sys/fs/cgroup")
	if err != nil {
		return nil // Problems reports every controller as missing.
	}
	var controllers []string
	for _, entry := range entries {
		controllers = append(controllers, strings.Split(entry.Name(), ",")...)
	}
	return controllers
}

func procFilesystems() []string {
	data, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// busyPorts checks the ports on exactly the address that the cloud is going to use, though no interface has it yet:
// other programs may use the same ports on other addresses, as resolvers use port 53 on a loopback address.
func busyPorts() []int {
	freeBind := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var optionErr error
		err := raw.Control(func(fd uintptr) { optionErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1) })
		return errors.Join(err, optionErr)
	}}
	var busy []int
	for _, port := range cloudPorts {
		listener, err := freeBind.Listen(context.Background(), "tcp4", net.JoinHostPort(publicAddress, strconv.Itoa(port)))
		if err == nil {
			listener.Close()
		} else if errors.Is(err, unix.EADDRINUSE) {
			busy = append(busy, port)
		}
	}
	return busy
}

func foreignRoutes() []string {
	network := netip.MustParsePrefix(publicNetwork)
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var foreign []string
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil || i.Name == publicBridge {
			continue
		}
		for _, address := range addresses {
			prefix, err := netip.ParsePrefix(address.String())
			if err == nil && prefix.Masked().Overlaps(network) {
				foreign = append(foreign, fmt.Sprintf("%s on %s", prefix, i.Name))
			}
		}
	}
	return foreign
}
