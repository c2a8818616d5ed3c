package managedresource

import "github.com/prometheus/client_golang/prometheus"

// Results of work on an object, as values of the metric's label.
const (
	resultCreated   = "created"
	resultUpdated   = "updated"
	resultCorrected = "corrected" // Somebody else had changed or deleted it.
	resultDeleted   = "deleted"
	resultFailed    = "failed" // Retried with the ManagedResource.
)

// Metrics count changes of objects. Nil counts nothing.
type Metrics struct {
	changes *prometheus.CounterVec
}

// NewMetrics registers metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{changes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hortus_resource_manager_object_changes_total",
		Help: "Changes of objects of ManagedResources by result: created, updated, corrected, deleted or failed.",
	}, []string{"result"})}
	registry.MustRegister(m.changes)
	return m
}

func (m *Metrics) changed(result string) {
	if m != nil {
		m.changes.WithLabelValues(result).Inc()
	}
}
