package gateway

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	open        *prometheus.GaugeVec
	connections *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	routes      prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hortus_gateway_open_connections", Help: "Number of open connections, by listener."}, []string{"listener"}),
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_gateway_connections_total",
			Help: "Connections by listener and result: routed, refused, malformed or unreachable."}, []string{"listener", "result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_gateway_bytes_total", Help: "Bytes carried by finished connections, by listener and direction."},
			[]string{"listener", "direction"}),
		routes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_gateway_routes", Help: "Number of host names and destinations in the routing table."}),
	}
	r.MustRegister(m.open, m.connections, m.bytes, m.routes)
	return m
}
