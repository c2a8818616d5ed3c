package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Host describes the machine and its load, without which the results mean little.
type Host struct {
	Time   time.Time `json:"time"`
	CPUs   int       `json:"cpus"`
	Kernel string    `json:"kernel,omitempty"`
	// Load is the number of runnable tasks, averaged over the last minute, before and after the bench.
	LoadBefore float64 `json:"loadBefore"`
	LoadAfter  float64 `json:"loadAfter"`
}

func describeHost(now time.Time) Host {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // Left empty if the file does not exist.
	return Host{
		Time: now.UTC().Round(time.Second), CPUs: runtime.NumCPU(), Kernel: strings.TrimSpace(string(kernel)),
		LoadBefore: load1(),
	}
}

// load1 returns the load of the last minute, 0 where the system does not report it.
func load1() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	value, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return value
}

func (h Host) String() string {
	return fmt.Sprintf("%d CPUs, Linux %s, load %.1f before and %.1f after", h.CPUs, h.Kernel, h.LoadBefore, h.LoadAfter)
}
