package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label kind.
const (
	changed  = "changed"  // Some rules and elements.
	replaced = "replaced" // All rules: at the start, and after a failed change.
)

// Metrics of a Controller.
type Metrics struct {
	changes  *prometheus.CounterVec
	policies prometheus.Gauge
	pods     *prometheus.GaugeVec
	setup    prometheus.Histogram
	failures prometheus.Counter
}

// NewMetrics registers the metrics. Refused is called for every scrape; if it fails, the scrape lacks its numbers.
func NewMetrics(r prometheus.Registerer, refused func() (Refused, error)) *Metrics {
	m := &Metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_network_agent_rule_changes_total",
			Help: "Changes of the rules in the kernel by kind: changed or replaced as a whole."}, []string{"kind"}),
		policies: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_network_agent_policies", Help: "Number of NetworkPolicies in the cluster."}),
		pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hortus_network_agent_restricted_pods",
			Help: "Number of pods of this node that policies restrict, by direction: egress or ingress."},
			[]string{"direction"}),
	}
	m.setup = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "hortus_network_agent_pod_setup_duration_seconds",
		Help:    "Time from the report of a new pod's addresses by the container runtime until its rules are in force.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
	m.failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "hortus_network_agent_pod_setup_errors_total",
		Help: "Reports of new pods' addresses by the container runtime that were answered with an error.",
	})
	r.MustRegister(m.changes, m.policies, m.pods, m.setup, m.failures,
		&refusedCollector{read: refused, packets: prometheus.NewDesc(
			"hortus_network_agent_refused_packets_total",
			"Packets refused by policies and by fixed rules, by direction seen from the pods of this node: egress or ingress.",
			[]string{"direction"}, nil)})
	return m
}

func (m *Metrics) describe(r Ruleset, policies int) {
	m.policies.Set(float64(policies))
	for _, restricted := range r.Maps {
		m.pods.WithLabelValues(restricted.Name).Set(float64(len(restricted.Elements)))
	}
}

func (m *Metrics) confined(after time.Duration, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.setup.Observe(after.Seconds())
}

// refusedCollector reads the counters of the kernel.
type refusedCollector struct {
	read    func() (Refused, error)
	packets *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *refusedCollector) Describe(out chan<- *prometheus.Desc) { out <- c.packets }

// Collect implements prometheus.Collector.
func (c *refusedCollector) Collect(out chan<- prometheus.Metric) {
	refused, err := c.read()
	if err != nil {
		return // An invalid metric would cost the scrape all others.
	}
	out <- prometheus.MustNewConstMetric(c.packets, prometheus.CounterValue, float64(refused.Egress), "egress")
	out <- prometheus.MustNewConstMetric(c.packets, prometheus.CounterValue, float64(refused.Ingress), "ingress")
}
