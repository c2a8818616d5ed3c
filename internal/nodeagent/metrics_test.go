package nodeagent

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/nodeagent/config"
)

func TestMetricsCountConfigurationsAndRestarts(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	a := newAgent(t, rawOSC(t, nil), node(nil))
	a.Metrics = m
	a.images.fail = func(string) error { return errors.New("no image") }
	if _, err := a.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Fatal("applied without an image")
	}
	a.images.fail = nil
	a.mustReconcile(t)
	a.mustReconcile(t) // There is nothing left to apply.
	for _, cause := range []string{causeRequest, causeUnhealthy, causeRequest} {
		if err := m.counting(a.units, cause).Restart(t.Context(), config.ContainerdUnitName); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.counting(a.units, causeCertificate).Stop(t.Context(), config.ContainerdUnitName); err != nil {
		t.Fatal(err)
	}
	if err := (*Metrics)(nil).counting(a.units, causeRequest).Restart(t.Context(), config.ContainerdUnitName); err != nil {
		t.Errorf("without metrics: %v", err)
	}
	const want = `
# HELP hortus_node_agent_configurations_total Operating system configurations by result: applied, or failed and retried.
# TYPE hortus_node_agent_configurations_total counter
hortus_node_agent_configurations_total{result="applied"} 1
hortus_node_agent_configurations_total{result="failed"} 1
# HELP hortus_node_agent_unit_restarts_total Requested restarts of units by cause: configuration, request, unhealthy or certificate.
# TYPE hortus_node_agent_unit_restarts_total counter
hortus_node_agent_unit_restarts_total{cause="certificate"} 0
hortus_node_agent_unit_restarts_total{cause="request"} 2
hortus_node_agent_unit_restarts_total{cause="unhealthy"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
