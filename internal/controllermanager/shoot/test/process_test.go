package test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// BenchmarkControllerManager has many Shoots due at the same time and measures, for the real process with all its
// controllers, Shoots per second from the first to the last one and the process's memory. -shoots sets their number.
// The first process has nothing to update, but makes all writes for new Shoots. The second one updates the Kubernetes
// version of each: a dry run, the status, the Shoot, the status again, and an event.
func BenchmarkControllerManager(b *testing.B) {
	program := filepath.Join(b.TempDir(), "hortus")
	if out, err := exec.Command("go", "build", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", program,
		"hortus.dev/hortus/cmd/hortus").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	e := env.Shared(b)
	clock.SetTime(time.Now()) // The process uses the real time.
	for b.Loop() {
		g := &garden{Environment: e, ctx: b.Context(), namespace: *e.Project(b).Spec.Namespace}
		spec := offer()
		spec.Kubernetes = kubernetes(version("1.36.2", "s"))
		g.profile = profileFor(b, e, spec)
		createDue(b, g)
		measureProcess(b, g, program, "new-")
		before := g.profile.DeepCopy()
		g.profile.Spec.Kubernetes = kubernetes(version("1.36.3", "s"), version("1.36.2", "d"))
		if err := g.Client.Patch(g.ctx, g.profile, client.MergeFrom(before)); err != nil {
			b.Fatal(err)
		}
		measureProcess(b, g, program, "")
		shoot := workerless(g, "p0")
		if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(shoot), shoot); err != nil {
			b.Fatal(err)
		}
		if m := shoot.Status.LastMaintenance; shoot.Spec.Kubernetes.Version != "1.36.3" || m == nil ||
			m.State != corev1beta1.LastOperationStateSucceeded {
			b.Errorf("a Shoot ends with %s and %+v", shoot.Spec.Kubernetes.Version, m)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// createDue creates the Shoots, whose window is open now.
func createDue(b *testing.B, g *garden) {
	b.Helper()
	const layout = "150405-0700"
	window := &corev1beta1.MaintenanceTimeWindow{
		Begin: time.Now().UTC().Add(-time.Hour).Format(layout), End: time.Now().UTC().Add(4 * time.Hour).Format(layout),
	}
	var creators errgroup.Group
	creators.SetLimit(8)
	for i := range *dueShoots {
		creators.Go(func() error {
			s := workerless(g, fmt.Sprintf("p%d", i))
			s.Spec.Kubernetes.Version = "1.36.2"
			s.Spec.Maintenance = &corev1beta1.Maintenance{
				TimeWindow: window, AutoUpdate: &corev1beta1.MaintenanceAutoUpdate{KubernetesVersion: true},
			}
			return g.Client.Create(g.ctx, s)
		})
	}
	if err := creators.Wait(); err != nil {
		b.Fatal(err)
	}
}

// measureProcess runs the process until every Shoot has been maintained. The metrics it reports begin with prefix.
func measureProcess(b *testing.B, g *garden, program, prefix string) {
	b.Helper()
	metrics, health := freeAddress(b), freeAddress(b)
	log, err := os.Create(filepath.Join(b.TempDir(), "controller-manager.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	command := exec.CommandContext(g.ctx, program, "controller-manager", "--metrics-address", metrics, "--health-address",
		health)
	command.Env = append(os.Environ(), "KUBECONFIG="+writeKubeconfig(b, g))
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = command.Process.Signal(os.Interrupt); _ = command.Wait() }()

	var begin time.Time
	const patience = 20 * time.Minute
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		done := sample(metrics, `controller_runtime_reconcile_total{controller="shoot-maintenance",result="requeue_after"}`)
		if begin.IsZero() && done > 0 {
			begin = time.Now()
		}
		if done >= float64(*dueShoots) {
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("%.0f of %d Shoots were maintained in %s", done, *dueShoots, patience)
		}
	}
	b.ReportMetric(float64(*dueShoots)/time.Since(begin).Seconds(), prefix+"shoots/s")
	b.ReportMetric(sample(metrics, `controller_runtime_reconcile_errors_total{controller="shoot-maintenance"}`), prefix+
		"errors")
	b.ReportMetric(sample(metrics, "go_memstats_heap_inuse_bytes")/(1<<20), prefix+"MiB-heap")
	b.ReportMetric(sample(metrics, "process_cpu_seconds_total"), prefix+"cpu-s")
	b.ReportMetric(statusField(b, command.Process.Pid, "VmHWM:")/1024, prefix+"MiB-peak-RSS")
}

// sample reads one value of /metrics, 0 if it is missing.
func sample(address, name string) float64 {
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, _ := strconv.ParseFloat(text, 64)
			return value
		}
	}
	return 0
}

// statusField reads a number of /proc/PID/status, in KiB.
func statusField(b *testing.B, pid int, field string) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field {
			value, _ := strconv.ParseFloat(words[1], 64)
			return value
		}
	}
	b.Fatalf("no %s for process %d", field, pid)
	return 0
}

func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func writeKubeconfig(b *testing.B, g *garden) string {
	b.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["garden"] = &clientcmdapi.Cluster{Server: g.Config.Host, CertificateAuthorityData: g.Config.CAData}
	c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: g.Config.CertData, ClientKeyData: g.Config.KeyData, Token: g.Config.BearerToken,
	}
	c.Contexts["garden"] = &clientcmdapi.Context{Cluster: "garden", AuthInfo: "admin"}
	c.CurrentContext = "garden"
	path := filepath.Join(b.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		b.Fatal(err)
	}
	return path
}
