package docs_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"hortus.dev/hortus/internal/controllermanager/project"
	"hortus.dev/hortus/internal/controllermanager/shoot/maintenance"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/service"
	"hortus.dev/hortus/internal/etcdmember"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/gardenlet/seed"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/care"
	"hortus.dev/hortus/internal/gateway"
	"hortus.dev/hortus/internal/nodeagent"
	"hortus.dev/hortus/internal/resourcemanager/managedresource"
	"hortus.dev/hortus/internal/scheduler"
	"hortus.dev/hortus/internal/tunnel"
	"hortus.dev/hortus/local/provider/networkagent/policy"
)

// registered records registrations, in the form "name(labels)".
type registered struct{ metrics []string }

var descriptionPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", .*variableLabels: \{(.*)\}\}$`)

func (r *registered) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

func (r *registered) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		match := descriptionPattern.FindStringSubmatch(d.String())
		if match == nil {
			return fmt.Errorf("unknown form of a description: %s", d)
		}
		r.metrics = append(r.metrics, signature(match[1], strings.Split(match[2], ",")))
	}
	return nil
}

func (r *registered) Unregister(prometheus.Collector) bool { return false }

func signature(name string, labels []string) string {
	labels = slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l == "" })
	slices.Sort(labels)
	return name + "(" + strings.Join(labels, ", ") + ")"
}

// registrations are the metrics that processes register, by the heading of the page.
func registrations(t *testing.T) map[string]func(prometheus.Registerer) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	return map[string]func(prometheus.Registerer){
		"gardenlet": func(r prometheus.Registerer) {
			shoot.NewMetrics(r, func() []*flow.Timers { return nil })
			r.MustRegister(&shoot.Fleet{}, &seed.Health{})
			care.NewMetrics(r)
		},
		"controller-manager": func(r prometheus.Registerer) {
			maintenance.NewMetrics(r)
			r.MustRegister(&maintenance.Due{}, &project.Fleet{})
		},
		"scheduler": func(r prometheus.Registerer) { scheduler.NewMetrics(r) },
		"gateway":   func(r prometheus.Registerer) { gateway.NewServer(logr.Discard(), r) },
		"tunnel server": func(r prometheus.Registerer) {
			_ = (&tunnel.Server{Registry: r}).Serve(stopped, tunnel.Listeners{}) // It has no address to listen on.
		},
		"tunnel client": func(r prometheus.Registerer) { (&tunnel.Client{Registry: r}).Run(stopped) },
		"etcd": func(r prometheus.Registerer) {
			service.NewMetrics(r, func() etcdbackup.Status { return etcdbackup.Status{} })
			etcdmember.NewMetrics(r)
		},
		"resource manager": func(r prometheus.Registerer) { managedresource.NewMetrics(r) },
		"node agent":       func(r prometheus.Registerer) { nodeagent.NewMetrics(r) },
		"network agent": func(r prometheus.Registerer) {
			policy.NewMetrics(r, func() (policy.Refused, error) { return policy.Refused{}, nil })
		},
	}
}

// ofLibraries are headings of metrics that libraries register, not our processes.
var ofLibraries = []string{"Extensions", "Libraries"}

// metricsPage returns the metrics of docs/metrics.md by heading, as signatures.
func metricsPage(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile("metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page, heading := map[string][]string{}, ""
	code := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(content)) {
		if text, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(text)
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		var labels []string
		for _, match := range code.FindAllStringSubmatch(cells[2], -1) {
			labels = append(labels, match[1])
		}
		name := code.FindStringSubmatch(cells[1])[1]
		page[heading] = append(page[heading], signature(name, labels))
	}
	return page
}

func TestPageListsAllMetrics(t *testing.T) {
	page, processes := metricsPage(t), registrations(t)
	for heading, register := range processes {
		r := &registered{}
		register(r)
		slices.Sort(r.metrics)
		slices.Sort(page[heading])
		if diff := cmp.Diff(r.metrics, page[heading]); diff != "" {
			t.Errorf("section %q mismatch (-registered +page):\n%s", heading, diff)
		}
	}
	for heading := range page {
		if processes[heading] == nil && !slices.Contains(ofLibraries, heading) {
			t.Errorf("section %q has metrics of no process that this test knows", heading)
		}
	}
}

// TestPageListsKindsOfWaits compares the values of the label "kind" of flows with the constants of steps.
func TestPageListsKindsOfWaits(t *testing.T) {
	content, err := os.ReadFile("metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(content), "A step names the kind of what it waits for:\n\n")
	if !found {
		t.Fatal("docs/metrics.md does not list what steps wait for")
	}
	list, _, _ = strings.Cut(list, "\n\n")
	var listed []string
	for _, match := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(list, -1) {
		listed = append(listed, match[1])
	}
	kinds := []string{extensionobject.Bastions.Name}
	for _, kind := range extensionobject.Kinds {
		kinds = append(kinds, kind.Name)
	}
	constant := regexp.MustCompile(`\b(?:flow\.)?Kind = "(\w+)"`)
	for _, folder := range []string{"internal/flow", "internal/gardenlet/shoot/steps"} {
		files, err := filepath.Glob(filepath.Join(repository, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		before := len(kinds)
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, match := range constant.FindAllSubmatch(source, -1) {
				kinds = append(kinds, string(match[1]))
			}
		}
		if len(kinds) == before {
			t.Errorf("%s has no constants of kinds; is the pattern broken?", folder)
		}
	}
	slices.Sort(kinds)
	slices.Sort(listed)
	if diff := cmp.Diff(slices.Compact(kinds), listed); diff != "" {
		t.Errorf("kinds of waits mismatch (-code +page):\n%s", diff)
	}
}

var (
	ourMetric   = regexp.MustCompile(`\bhortus_[a-z0-9_]+`)
	metricParts = []string{
		"gardenlet", "flow", "controller_manager", "scheduler", "extension", "gateway", "tunnel_server", "tunnel_client",
		"etcd_backup", "etcd_member", "network_agent", "resource_manager", "node_agent",
	}
	nameEndings = regexp.MustCompile(`_(total|duration_seconds|timestamp_seconds|seconds|bytes)$`)
)

// TestMetricsOfSourceAreOnThePage finds metrics of processes that TestPageListsAllMetrics does not know.
func TestMetricsOfSourceAreOnThePage(t *testing.T) {
	known := knownMetrics(t)
	found := map[string]bool{}
	literal := regexp.MustCompile(`"(hortus_[a-z0-9_]+)"`)
	for _, folder := range []string{"cmd", "extension", "internal", "local"} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range literal.FindAllSubmatch(content, -1) {
				found[string(match[1])] = true
				if !known[string(match[1])] {
					t.Errorf("%s: metric %s is not in docs/metrics.md", path, match[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range known {
		if !found[name] {
			t.Errorf("docs/metrics.md: metric %s is not in the source", name)
		}
	}
}

// knownMetrics are the names of our own metrics on the page.
func knownMetrics(t *testing.T) map[string]bool {
	known := map[string]bool{}
	for _, signatures := range metricsPage(t) {
		for _, s := range signatures {
			if name, _, _ := strings.Cut(s, "("); strings.HasPrefix(name, "hortus_") {
				known[name] = true
			}
		}
	}
	return known
}

// TestNamesOfMetricsFollowTheirScheme: the name of a metric shows its type and unit.
func TestNamesOfMetricsFollowTheirScheme(t *testing.T) {
	for name := range knownMetrics(t) {
		if !slices.ContainsFunc(metricParts, func(p string) bool { return strings.HasPrefix(name, "hortus_"+p+"_") }) {
			t.Errorf("%s: unknown part (known: %s)", name, strings.Join(metricParts, ", "))
		}
		for _, unit := range []string{"second", "byte"} {
			if strings.Contains(name, unit) && !nameEndings.MatchString(name) {
				t.Errorf("%s: the unit is not at the end", name)
			}
		}
	}
}

// TestDocumentsNameMetricsThatExist: the old name of a metric must not stay in a runbook.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	known := knownMetrics(t)
	for path, doc := range documents(t) {
		for _, name := range ourMetric.FindAllString(doc.prose+strings.Join(doc.commands, "\n"), -1) {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			family := strings.HasSuffix(name, "_") // As in hortus_etcd_backup_*.
			if !known[name] && !known[base] && !family {
				t.Errorf("%s: metric %s is not in docs/metrics.md", path, name)
			}
		}
	}
}

// TestMetricsOfLibrariesAreServed runs a controller in a program that contains everything, as hortus does: the registry
// of client-go's metrics depends on the order in which libraries are initialized.
func TestMetricsOfLibrariesAreServed(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	mgr, err := ctrl.NewManager(&rest.Config{Host: api.URL}, ctrl.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	reconciled := make(chan struct{})
	once := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(reconcile.Request{})
		return nil
	})
	c, err := controller.New("docs", mgr, controller.Options{Reconciler: reconcile.Func(
		func(context.Context, reconcile.Request) (reconcile.Result, error) {
			close(reconciled)
			return reconcile.Result{}, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(once); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-reconciled
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	client := discovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: api.URL}).RESTClient()
	client.Get().AbsPath("/version").Do(t.Context())

	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, f := range families {
		if len(f.GetMetric()) == 0 {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		served = append(served, signature(f.GetName(), labels))
	}
	for _, want := range metricsPage(t)["Libraries"] {
		if !slices.Contains(served, want) {
			t.Errorf("%s is not served", want)
		}
	}
}
