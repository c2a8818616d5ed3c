package architecture

import (
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rendered are the folders with everything that Hortus runs, as it is applied: golden files and templates.
var rendered = []string{"charts", "internal/component", "local/landscape/cluster", "local/provider"}

// openMetrics are files of programs whose metrics may be reachable: those of CoreDNS belong to the owner of the Shoot.
var openMetrics = []string{"internal/component/coredns/testdata/coredns.yaml"}

// withCredentials are templates of programs that require credentials except on the loopback interface: see
// internal/metrics.
var withCredentials = []string{
	"charts/garden/templates/controller-manager.yaml", "charts/garden/templates/scheduler.yaml",
}

var (
	metricsPort = regexp.MustCompile(`containerPort: \d+\n\s*name: metrics\b|` + // Of a golden file.
		`name: metrics, containerPort|containerPort: \d+, name: metrics\b`) // Of a chart.
	// metricsAddress is a flag, such as --listen-metrics-urls=http://127.0.0.1:2381, or a field of a configuration.
	metricsAddress = regexp.MustCompile(`(?:--[a-z-]*metrics[a-z-]*(?:address|urls?)=|metricsBindAddress: )([^\s"]+)`)
)

// TestMetricsAreServedInsidePods checks that metrics are served on the loopback interface: they need no credentials, so
// a network policy should not be the only protection.
func TestMetricsAreServedInsidePods(t *testing.T) {
	seen := 0
	for _, folder := range rendered {
		root := filepath.Join("../..", folder)
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			if slices.Contains(openMetrics, name) {
				return nil
			}
			if port := metricsPort.Find(content); port != nil {
				t.Errorf("%s: a container declares a port for metrics: %q", name, port)
			}
			for _, match := range metricsAddress.FindAllSubmatch(content, -1) {
				seen++
				if slices.Contains(withCredentials, name) {
					continue
				}
				if !insidePod(string(match[1])) {
					t.Errorf("%s: metrics are served on %s (127.0.0.1 only)", name, match[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen == 0 {
		t.Error("no address of metrics was found: the expression or the folders are wrong")
	}
}

// insidePod reports whether an address, or each of several URLs, is on the loopback interface, or disables metrics.
func insidePod(addresses string) bool {
	for address := range strings.SplitSeq(addresses, ",") {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			address = u.Host
		}
		a, err := netip.ParseAddrPort(address)
		if address != "0" && (err != nil || !a.Addr().IsLoopback()) {
			return false
		}
	}
	return true
}

func TestInsidePod(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:8080": true, "0": true, "http://127.0.0.1:2381": true,
		"http://127.0.0.1:2381,http://[::1]:2381": true, "http://127.0.0.1:1,http://10.0.0.1:1": false,
		":8080": false, "0.0.0.0:10249": false, "[::]:8080": false, "http://0.0.0.0:2381": false, "localhost:8080": false,
		"": false,
	} {
		if got := insidePod(address); got != want {
			t.Errorf("insidePod(%q) = %t, want %t", address, got, want)
		}
	}
}
