package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// Metrics of the process. Gauges are read from the status at each scrape.
type Metrics struct {
	status   func() etcdbackup.Status
	stored   *prometheus.CounterVec
	failures *prometheus.CounterVec
}

var (
	active = prometheus.NewDesc("hortus_etcd_backup_active",
		"Whether this process takes the backups: 1 if so, 0 if it stands by, is superseded or fails.", nil, nil)
	behind = prometheus.NewDesc("hortus_etcd_backup_unsaved_seconds",
		"Age of the oldest change of etcd that is not in the object store.", nil, nil)
	lastFull = prometheus.NewDesc("hortus_etcd_backup_last_full_timestamp_seconds",
		"Time of the last full snapshot.", nil, nil)
	lastVerified = prometheus.NewDesc("hortus_etcd_backup_last_verification_timestamp_seconds",
		"Time of the last verification that succeeded.", nil, nil)
	storeBytes = prometheus.NewDesc("hortus_etcd_backup_store_bytes",
		"Size of all backups in the object store.", nil, nil)
)

// NewMetrics registers the metrics with r.
func NewMetrics(r prometheus.Registerer, status func() etcdbackup.Status) *Metrics {
	m := &Metrics{
		status: status,
		stored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_etcd_backup_stored_bytes_total", Help: "Bytes of backups written, by kind."}, []string{"kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_etcd_backup_failures_total", Help: "Failed operations, by operation."}, []string{"operation"}),
	}
	r.MustRegister(m, m.stored, m.failures)
	return m
}

// Stored counts an object.
func (m *Metrics) Stored(o chain.Object) {
	m.stored.WithLabelValues(string(o.Kind)).Add(float64(o.Size))
}

// Failed counts a failure.
func (m *Metrics) Failed(operation string) { m.failures.WithLabelValues(operation).Inc() }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{active, behind, lastFull, lastVerified, storeBytes} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	s := m.status()
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	isActive := 0.0
	if s.Phase == etcdbackup.PhaseActive {
		isActive = 1
	}
	gauge(active, isActive)
	gauge(behind, s.SecondsBehind)
	gauge(storeBytes, float64(s.SizeBytes))
	if s.LastFull != nil {
		gauge(lastFull, float64(s.LastFull.Created.Unix()))
	}
	if v := s.LastVerification; v != nil && v.Error == "" {
		gauge(lastVerified, float64(v.Time.Unix()))
	}
}
