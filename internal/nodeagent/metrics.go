package nodeagent

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/nodeagent/units"
)

// Causes of restarts of units, as values of the metric's label.
const (
	causeConfiguration = "configuration" // The unit, or a file that it reads, has changed.
	causeRequest       = "request"       // By an annotation of the Node.
	causeUnhealthy     = "unhealthy"     // It did not answer.
	causeCertificate   = "certificate"   // Of the node agent itself, which uses a new certificate then.
)

// Metrics count what the node agent does to its host. Nil counts nothing.
type Metrics struct {
	configurations *prometheus.CounterVec
	restarts       *prometheus.CounterVec
}

// NewMetrics registers metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		configurations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_node_agent_configurations_total",
			Help: "Operating system configurations by result: applied, or failed and retried.",
		}, []string{"result"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_node_agent_unit_restarts_total",
			Help: "Requested restarts of units by cause: configuration, request, unhealthy or certificate.",
		}, []string{"cause"}),
	}
	registry.MustRegister(m.configurations, m.restarts)
	return m
}

func (m *Metrics) applied() {
	if m != nil {
		m.configurations.WithLabelValues("applied").Inc()
	}
}

func (m *Metrics) failed() {
	if m != nil {
		m.configurations.WithLabelValues("failed").Inc()
	}
}

// counting returns a manager of the same units that counts restarts, for this cause.
func (m *Metrics) counting(manager units.Manager, cause string) units.Manager {
	if m == nil {
		return manager
	}
	return countedUnits{Manager: manager, restarts: m.restarts.WithLabelValues(cause)}
}

type countedUnits struct {
	units.Manager
	restarts prometheus.Counter
}

// Restart implements units.Manager. It counts first: the restart may end this process.
func (c countedUnits) Restart(ctx context.Context, name string) error {
	c.restarts.Inc()
	return c.Manager.Restart(ctx, name)
}
