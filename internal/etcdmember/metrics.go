package etcdmember

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/etcdmember/fence"
)

// Causes of the end of etcd, as values of the metric's label.
const (
	causeConfiguration = "configuration" // Restarted with another one.
	causeFailure       = "failure"       // Ended by itself, or did not start.
	causeFenced        = "fenced"        // Nobody confirms any more that it may run.
	causeSuperseded    = "superseded"    // Another owner has taken over.
)

// Metrics count starts and ends of etcd. Nil counts nothing.
type Metrics struct {
	starts prometheus.Counter
	ends   *prometheus.CounterVec
}

// NewMetrics registers metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		starts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hortus_etcd_member_starts_total", Help: "Starts of etcd; all but the first one are restarts.",
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_etcd_member_ends_total",
			Help: "Ends of etcd by cause: configuration, failure, fenced or superseded.",
		}, []string{"cause"}),
	}
	registry.MustRegister(m.starts, m.ends)
	return m
}

func (m *Metrics) started() {
	if m != nil {
		m.starts.Inc()
	}
}

// ended counts the end of etcd with what serve has returned. The end of this process does not count.
func (m *Metrics) ended(ctx context.Context, err error, verdict fence.Verdict) {
	if m == nil || ctx.Err() != nil {
		return
	}
	cause := causeFailure
	switch {
	case err == nil:
		cause = causeConfiguration
	case errors.Is(err, errNotPermitted) && verdict == fence.Superseded:
		cause = causeSuperseded
	case errors.Is(err, errNotPermitted):
		cause = causeFenced
	}
	m.ends.WithLabelValues(cause).Inc()
}
