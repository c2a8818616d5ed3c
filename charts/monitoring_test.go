package charts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

// renderMonitored renders a chart with values and monitoring.
func renderMonitored(
	t *testing.T, name string, values, monitoring map[string]any,
) ([]*unstructured.Unstructured, error) {
	t.Helper()
	c, err := chart.LoadFS(charts.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	monitoring["enabled"] = true
	values["monitoring"] = monitoring
	return chart.Render(c, chart.Release{Name: name, Namespace: "garden"}, values)
}

// gardenletValues configure where the gardenlet serves metrics.
func gardenletValues(metrics map[string]any) map[string]any {
	config := map[string]any{"seedConfig": map[string]any{"metadata": map[string]any{"name": "own"}}}
	if metrics != nil {
		config["server"] = map[string]any{"metrics": metrics}
	}
	return map[string]any{"gardenKubeconfig": "KUBECONFIG", "config": config}
}

// Prometheus uses the token of the Secret, which any server in place of a part sees, and its own only without one.
func TestTokensOfMonitoring(t *testing.T) {
	secret := func(name, key string) map[string]any {
		return map[string]any{"type": "Bearer", "credentials": map[string]any{"name": name, "key": key}}
	}
	for name, tc := range map[string]struct {
		tokenSecret map[string]any
		want        map[string]any
	}{
		"of a Secret":             {map[string]any{"name": "reader", "key": "t"}, secret("reader", "t")},
		"of a ServiceAccount":     {map[string]any{"name": "reader"}, secret("reader", "token")},
		"of Prometheus by itself": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for part, values := range map[string]map[string]any{"garden": gardenValues(), "gardenlet": gardenletValues(nil)} {
				monitoring := map[string]any{}
				if tc.tokenSecret != nil {
					monitoring["tokenSecret"] = tc.tokenSecret
				}
				objects, err := renderMonitored(t, part, values, monitoring)
				if err != nil {
					t.Fatal(err)
				}
				checkTokens(t, objects, map[string]int{"garden": 3, "gardenlet": 1}[part], tc.want)
			}
		})
	}
	if _, err := renderMonitored(t, "gardenlet", gardenletValues(nil), map[string]any{
		"tokenSecret": map[string]any{"key": "token"},
	}); err == nil || !strings.Contains(err.Error(), "monitoring.tokenSecret.name") {
		t.Errorf("a token of a Secret without name: %v", err)
	}
}

// checkTokens checks how the endpoints of ServiceMonitors are authorized; nil stands for the token of Prometheus.
func checkTokens(t *testing.T, objects []*unstructured.Unstructured, monitors int, want map[string]any) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "ServiceMonitor" {
			continue
		}
		monitors--
		endpoints, _, err := unstructured.NestedSlice(o.Object, "spec", "endpoints")
		if err != nil || len(endpoints) != 1 {
			t.Fatalf("%s has the endpoints %v (%v)", o.GetName(), endpoints, err)
		}
		endpoint := endpoints[0].(map[string]any)
		got, _ := endpoint["authorization"].(map[string]any)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("authorization of %s mismatch (-want +got):\n%s", o.GetName(), diff)
		}
		if _, own := endpoint["bearerTokenFile"]; own != (want == nil) {
			t.Errorf("%s sends the token of Prometheus: %t", o.GetName(), own)
		}
	}
	if monitors != 0 {
		t.Errorf("%d ServiceMonitors more are wanted", monitors)
	}
}

// Service and NetworkPolicy follow the configuration of the gardenlet.
func TestMonitoringOfGardenlet(t *testing.T) {
	for name, tc := range map[string]struct {
		metrics map[string]any
		port    int64
		err     string
	}{
		"by default":            {nil, 2729, ""},
		"another port":          {map[string]any{"port": 9999}, 9999, ""},
		"an address of the pod": {map[string]any{"bindAddress": "::"}, 2729, ""},
		"loopback":              {map[string]any{"bindAddress": "127.0.0.1"}, 0, "metrics.bindAddress: not reachable"},
		"loopback of IPv6":      {map[string]any{"bindAddress": "::1", "port": 1}, 0, "Prometheus: ::1 ("},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := renderMonitored(t, "gardenlet", gardenletValues(tc.metrics), map[string]any{})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("the chart is rendered with %v, want %q", err, tc.err)
			}
			ports := map[string]any{}
			for _, o := range objects {
				var list []any
				switch o.GetKind() + "/" + o.GetName() {
				case "Service/gardenlet":
					list, _, _ = unstructured.NestedSlice(o.Object, "spec", "ports")
				case "NetworkPolicy/gardenlet-metrics":
					rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "ingress")
					list, _ = rules[0].(map[string]any)["ports"].([]any)
				default:
					continue
				}
				ports[o.GetKind()] = list[0].(map[string]any)["port"]
			}
			want := map[string]any{"Service": tc.port, "NetworkPolicy": tc.port}
			if diff := cmp.Diff(want, ports); err == nil && diff != "" {
				t.Errorf("ports mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
