package care

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of checks; nil counts nothing. The number of Shoots by condition is a metric of Fleet in package shoot.
type Metrics struct {
	checks  *prometheus.HistogramVec
	repairs prometheus.Counter
	pods    prometheus.Counter
}

// NewMetrics registers metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		checks: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "hortus_gardenlet_care_check_duration_seconds",
			Help:    "How long it took to observe a Shoot for its conditions, by result: success or error.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 15},
		}, []string{"result"}),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hortus_gardenlet_care_repaired_webhook_configurations_total",
			Help: "Webhook configurations in Shoots that were changed because they could break the cluster.",
		}),
		pods: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hortus_gardenlet_care_deleted_pods_total", Help: "Failed pods that were deleted in Shoots.",
		}),
	}
	registry.MustRegister(m.checks, m.repairs, m.pods)
	return m
}

func (m *Metrics) check(took time.Duration, err error) {
	if m == nil {
		return
	}
	result := "success"
	if err != nil {
		result = "error"
	}
	m.checks.WithLabelValues(result).Observe(took.Seconds())
}

func (m *Metrics) repairWebhooks() {
	if m != nil {
		m.repairs.Inc()
	}
}

func (m *Metrics) removePods(n int) {
	if m != nil {
		m.pods.Add(float64(n))
	}
}
