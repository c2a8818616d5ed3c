package gateway

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	open        *prometheus.GaugeVec
	connections *prometheus.CounterVec
	limited     *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	routes      prometheus.Gauge
}

// Listeners, as metrics name them.
const (
	portTLS     = "tls"
	portConnect = "connect"
	portProxy   = "proxy"
)

// Limits, as the metric names them.
const (
	limitUndecided   = "undecided"   // A connection that had not sent its destination was closed for a newer one.
	limitDestination = "destination" // A connection to a control plane that has too many was refused.
)

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hortus_gateway_open_connections", Help: "Number of open connections, by listener."}, []string{"listener"}),
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_gateway_connections_total",
			Help: "Connections by listener and result: routed, refused, malformed, limited or unreachable."},
			[]string{"listener", "result"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_gateway_limited_connections_total",
			Help: "Connections refused or closed because of a limit, by listener and limit."},
			[]string{"listener", "limit"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_gateway_transferred_bytes_total",
			Help: "Bytes carried by finished connections, by listener and direction."},
			[]string{"listener", "direction"}),
		routes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_gateway_routes", Help: "Number of host names and destinations in the routing table."}),
	}
	r.MustRegister(m.open, m.connections, m.limited, m.bytes, m.routes)
	return m
}
