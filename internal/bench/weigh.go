package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process is a process of this machine with its resource usage.
type process struct {
	pid int
	// instance is the id of the cloud's instance it runs in, pod the UID of its pod; empty outside.
	instance, pod string
	command       string
	// proportional is the memory with shared pages divided by the number of processes that share them (PSS), so that
	// sums are correct.
	proportional int64
	cpu          time.Duration
	// written is the number of bytes that the process has caused to be written to disks; 0 if the kernel does not count
	// that.
	written int64
}

var (
	instancePattern = regexp.MustCompile(`/hortus/(i-[0-9a-f]+)(?:/|$)`)
	// backupsPattern is the command line of the process that keeps the backups of an etcd, and runs it as a child.
	backupsPattern = regexp.MustCompile(`^\S*hortus etcd `)
	podPattern     = regexp.MustCompile(`/pod([0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32})(?:/|$)`)
)

// parseCgroups finds instance and pod in /proc/<pid>/cgroup. Where both versions of cgroups are in use only some of the
// lines name the pod. Pods of a machine's own kubelet come last in the path.
func parseCgroups(data []byte) (instance, pod string) {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if match := instancePattern.FindStringSubmatch(line); match != nil {
			instance = match[1]
		}
		if matches := podPattern.FindAllStringSubmatch(line, -1); len(matches) > 0 {
			pod = matches[len(matches)-1][1]
		}
	}
	return instance, pod
}

// readProcesses reads all processes below a proc file system. Those that end meanwhile, and threads of the kernel,
// are left out.
func readProcesses(proc string) ([]process, error) {
	dirs, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var processes []process
	for _, dir := range dirs {
		p, err := readProcess(dir)
		if ended(err) || errors.Is(err, fs.ErrPermission) { // Process 1 of a virtual machine may be hidden even from root.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read process %s: %w", filepath.Base(dir), err)
		}
		if p.proportional > 0 {
			processes = append(processes, p)
		}
	}
	return processes, nil
}

func readProcess(dir string) (process, error) {
	p := process{}
	var err error
	if p.pid, err = strconv.Atoi(filepath.Base(dir)); err != nil {
		return p, err
	}
	memory, err := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
	if err != nil {
		return p, err
	}
	cgroups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return p, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, err
	}
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, err
	}
	p.proportional = parseKilobytes(memory)["Pss"]
	p.instance, p.pod = parseCgroups(cgroups)
	p.command = string(bytes.TrimSpace(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
	if p.cpu, err = parseStat(stat); err != nil {
		return p, err
	}
	counters, err := os.ReadFile(filepath.Join(dir, "io"))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	p.written = parseWritten(counters)
	return p, err
}

// parseWritten returns the bytes written from /proc/<pid>/io, without those that were dropped before they reached a
// disk.
func parseWritten(counters []byte) int64 {
	var written int64
	for line := range strings.Lines(string(counters)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
		case name == "write_bytes":
			written += n
		case name == "cancelled_write_bytes":
			written -= n
		}
	}
	return written
}

// ended reports whether a process has ended or has no memory of its own.
func ended(err error) bool {
	const noSuchProcess = "no such process" // ESRCH, which reads of a process that ends return.
	return errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), noSuchProcess)
}

// Class is the purpose of a process.
type Class string

// Classes in the order of reports.
const (
	ClassControlPlanes Class = "control planes of Shoots"
	ClassBackups       Class = "backups of Shoots' etcds"
	ClassMachines      Class = "machines of Shoots"
	ClassManagers      Class = "managers"
	ClassGardenAPI     Class = "garden API"
	ClassSeeds         Class = "clusters of the landscape"
	ClassHost          Class = "host"
)

var classes = []Class{
	ClassControlPlanes, ClassBackups, ClassMachines, ClassManagers, ClassGardenAPI, ClassSeeds, ClassHost,
}

// podKey is the namespace and name of a pod.
type podKey struct{ namespace, name string }

// ground holds the data about the landscape by which processes are classified.
type ground struct {
	// pods of the landscape's own clusters, by UID.
	pods map[string]podKey
	// own are the instances of the landscape's own clusters.
	own map[string]bool
	// marks are parts of the command lines of processes on the host that belong to the landscape.
	marks []string
}

// classify returns the class of a process; not ok for processes that do not belong to the landscape.
func (g *ground) classify(p process) (class Class, ok bool) {
	switch {
	case p.instance == "":
		return ClassHost, slices.ContainsFunc(g.marks, func(mark string) bool { return strings.Contains(p.command, mark) })
	case !g.own[p.instance]:
		return ClassMachines, true
	}
	pod, known := g.pods[p.pod]
	switch {
	case !known:
		return ClassSeeds, true
	case strings.HasPrefix(pod.namespace, "shoot--") && backupsPattern.MatchString(p.command):
		return ClassBackups, true
	case strings.HasPrefix(pod.namespace, "shoot--"):
		return ClassControlPlanes, true
	case pod.namespace == "garden" && (strings.Contains(pod.name, "etcd") || strings.Contains(pod.name, "apiserver")):
		return ClassGardenAPI, true
	case pod.namespace == "garden", strings.HasPrefix(pod.namespace, "extension-"):
		return ClassManagers, true
	default:
		return ClassSeeds, true
	}
}

// Weight is the resource usage of the processes of a class.
type Weight struct {
	Class     Class `json:"class"`
	Processes int   `json:"processes"`
	// Bytes is the sum of proportional set sizes.
	Bytes int64         `json:"bytes"`
	CPU   time.Duration `json:"-"`
}

// weigh sums up processes by class, in the order of classes.
func (g *ground) weigh(processes []process) []Weight {
	weights := make([]Weight, len(classes))
	for i, class := range classes {
		weights[i].Class = class
	}
	for _, p := range processes {
		class, ok := g.classify(p)
		if !ok {
			continue
		}
		w := &weights[slices.Index(classes, class)]
		w.Processes++
		w.Bytes += p.proportional
		w.CPU += p.cpu
	}
	return weights
}

// work is the CPU time and the writes of processes between two measurements.
type work struct {
	cpu     time.Duration
	written int64 // Bytes.
}

// workOf returns the work of each process between two measurements, by process ID. Processes that started or ended in
// between are left out, since their work is not known.
func workOf(before, after []process) map[int]work {
	was := map[int]process{}
	for _, p := range before {
		was[p.pid] = p
	}
	done := map[int]work{}
	for _, p := range after {
		if earlier, known := was[p.pid]; known && earlier.command == p.command {
			done[p.pid] = work{cpu: p.cpu - earlier.cpu, written: p.written - earlier.written}
		}
	}
	return done
}

// worked returns the work per class between two measurements.
func (g *ground) worked(before, after []process) map[Class]work {
	by, done := workOf(before, after), map[Class]work{}
	for _, p := range after {
		each, known := by[p.pid]
		if class, ok := g.classify(p); ok && known {
			sum := done[class]
			sum.cpu += each.cpu
			sum.written += each.written
			done[class] = sum
		}
	}
	return done
}

// programOf returns the usual name of the program of a process: the file, and for a file with many programs the first
// command.
func programOf(command string) string {
	words := strings.Fields(command)
	if len(words) == 0 {
		return ""
	}
	name := filepath.Base(words[0])
	if (name == "hortus" || name == "control-plane") && len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		name += " " + words[1]
	}
	return name
}

// programWeight is the resource usage of the processes of one program.
type programWeight struct {
	processes int
	bytes     int64
	cpu       time.Duration
}

// weighPrograms sums up the resource usage of the processes of the Shoots' control planes, by program; CPU time is the
// time since an earlier measurement.
func (g *ground) weighPrograms(before, after []process) map[string]programWeight {
	by, weights := workOf(before, after), map[string]programWeight{}
	for _, p := range after {
		if class, ok := g.classify(p); !ok || class != ClassControlPlanes && class != ClassBackups {
			continue
		}
		name := programOf(p.command)
		w := weights[name]
		w.processes++
		w.bytes += p.proportional
		w.cpu += by[p.pid].cpu
		weights[name] = w
	}
	return weights
}
