package bench

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"k8s.io/client-go/rest"

	"hortus.dev/hortus/test/env"
)

var (
	fleets  = flag.String("shoots", "[1000]", "numbers of Shoots to measure with, as a JSON list")
	program = flag.String("program", "", "program to measure instead of this checkout's .build/hortus")
	direct  = flag.Bool("direct", false, "use the API server itself instead of the kube-apiserver in front of it")
	reports = flag.String("reports", "", "folder to keep reports in as JSON")
)

// standalone starts etcd, a kube-apiserver and our API server as separate processes, with nothing else.
func standalone(b *testing.B) (*env.Environment, *Target, []int) {
	b.Helper()
	var shoots []int
	if err := json.Unmarshal([]byte(*fleets), &shoots); err != nil {
		b.Fatalf("-shoots: %v", err)
	}
	path := *program
	if path == "" {
		path = filepath.Join("..", "..", ".build", "hortus")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		b.Fatalf("%v: build it with 'make build'", err)
	}
	e := env.Start(b, env.WithGardenAPIProcess(path))
	target := &Target{Config: rest.CopyConfig(e.Config), Measured: rest.CopyConfig(e.Config)}
	for _, c := range []*rest.Config{target.Config, target.Measured} {
		c.UserAgent, c.DisableCompression = userAgent, true
	}
	if *direct {
		target.Measured.Host, target.Measured.CAData, target.Measured.Insecure = e.GardenAPI.URL, nil, true
	}
	return e, target, shoots
}

// keep logs a report and writes it to a file.
func keep(b *testing.B, name string, report any, table func(*tabwriter.Writer)) {
	b.Helper()
	var text strings.Builder
	if err := printReport(&text, "table", report, table); err != nil {
		b.Fatal(err)
	}
	b.Logf("\n%s", text.String())
	if *reports == "" {
		return
	}
	if err := writeReport(filepath.Join(*reports, name), report); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAPI loads the API server together with an etcd and a kube-apiserver, with nothing else on the machine.
func BenchmarkAPI(b *testing.B) {
	e, target, shoots := standalone(b)
	for b.Loop() {
		report, err := API(b.Context(), target, APIOptions{
			Shoots: shoots, Clients: 16, Watchers: 10, Suffix: suffix(), Usage: processUsage("/proc", e.GardenAPI.PID),
			Progress: b.Logf,
		})
		if err != nil {
			b.Fatal(err)
		}
		keep(b, "api.json", report, report.table)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkScheduler has the real scheduler place Shoots of the same API server.
func BenchmarkScheduler(b *testing.B) {
	_, target, shoots := standalone(b)
	for b.Loop() {
		report, err := Scheduler(b.Context(), target, SchedulerOptions{
			Shoots: shoots, Seeds: 20, Workers: 8, Clients: 16, Suffix: suffix(), Progress: b.Logf,
		})
		if err != nil {
			b.Fatal(err)
		}
		keep(b, "scheduler.json", report, report.table)
	}
	b.ReportMetric(0, "ns/op")
}
