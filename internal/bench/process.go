package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTicks is the unit of CPU times in /proc, per second; Linux uses no other towards programs.
const clockTicks = 100

// Usage is the resource usage of a process up to a point in time. Zero values mean unknown.
type Usage struct {
	ResidentBytes int64
	PeakBytes     int64 // The highest ResidentBytes so far.
	CPU           time.Duration
}

// usageSource reads the usage of the server.
type usageSource func(context.Context) (Usage, error)

// processUsage reads the usage of a process of this machine.
func processUsage(proc string, pid int) usageSource {
	return func(context.Context) (Usage, error) {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			return Usage{}, fmt.Errorf("read memory of process %d: %w", pid, err)
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			return Usage{}, fmt.Errorf("read CPU time of process %d: %w", pid, err)
		}
		cpu, err := parseStat(stat)
		if err != nil {
			return Usage{}, fmt.Errorf("read CPU time of process %d: %w", pid, err)
		}
		sizes := parseKilobytes(status)
		return Usage{ResidentBytes: sizes["VmRSS"], PeakBytes: sizes["VmHWM"], CPU: cpu}, nil
	}
}

// parseKilobytes reads lines like "VmRSS:   123 kB" and returns bytes by name.
func parseKilobytes(data []byte) map[string]int64 {
	sizes := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name, rest, found := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(rest)
		if !found || len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		if value, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			sizes[name] = value << 10
		}
	}
	return sizes
}

// parseStat returns the CPU time out of /proc/<pid>/stat: fields 14 and 15, behind a name that may hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("no name in %q", stat)
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("only %d fields behind the name", len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		value, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time %q: %w", field, err)
		}
		ticks += value
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}

// metricsUsage reads the usage of a server from its metrics.
func metricsUsage(client *jsonClient, path string) usageSource {
	return func(ctx context.Context) (Usage, error) {
		answer, err := client.start(ctx, "GET", path, "", nil)
		if err != nil {
			return Usage{}, fmt.Errorf("read metrics: %w", err)
		}
		defer answer.Close()
		return parseMetrics(answer)
	}
}

// parseMetrics takes the standard metrics of a process out of the text format.
func parseMetrics(metrics io.Reader) (Usage, error) {
	var usage Usage
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, 1<<20) // Lines of histograms are long.
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // A comment.
		}
		switch name {
		case "process_resident_memory_bytes":
			usage.ResidentBytes = int64(number)
		case "process_cpu_seconds_total":
			usage.CPU = time.Duration(number * float64(time.Second))
		}
	}
	if err := lines.Err(); err != nil {
		return Usage{}, fmt.Errorf("read metrics: %w", err)
	}
	if usage.ResidentBytes == 0 {
		return Usage{}, fmt.Errorf("the metrics have no process_resident_memory_bytes")
	}
	return usage, nil
}
