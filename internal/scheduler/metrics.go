package scheduler

import "github.com/prometheus/client_golang/prometheus"

// Results of decisions, as values of the metric's label.
const (
	resultAssigned = "assigned"
	resultNoSeed   = "no_seed"
	resultConflict = "conflict" // The Shoot has changed meanwhile; it is decided about again.
	resultRefused  = "refused"  // By the API server.
	resultError    = "error"
)

// Metrics count decisions. Nil counts nothing.
type Metrics struct {
	decisions *prometheus.CounterVec
}

// NewMetrics registers metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hortus_scheduler_decisions_total",
		Help: "Decisions about Shoots by result: assigned, no_seed, conflict, refused or error.",
	}, []string{"result"})}
	registry.MustRegister(m.decisions)
	return m
}

func (m *Metrics) decided(result string) {
	if m != nil {
		m.decisions.WithLabelValues(result).Inc()
	}
}
