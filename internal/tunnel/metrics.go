package tunnel

import "github.com/prometheus/client_golang/prometheus"

type serverMetrics struct {
	sessions prometheus.Gauge
	streams  prometheus.Gauge
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
}

func newServerMetrics(r prometheus.Registerer) *serverMetrics {
	m := &serverMetrics{
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_tunnel_server_sessions", Help: "Number of connected tunnel clients."}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_tunnel_server_streams", Help: "Number of open connections through the tunnel."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_server_requests_total", Help: "Connections the API server asked for, by HTTP status code."},
			[]string{"code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_server_bytes_total", Help: "Bytes carried by finished connections, by direction."},
			[]string{"direction"}),
	}
	r.MustRegister(m.sessions, m.streams, m.requests, m.bytes)
	return m
}

type clientMetrics struct {
	connected prometheus.Gauge
	connects  *prometheus.CounterVec
	streams   prometheus.Gauge
	dials     *prometheus.CounterVec
}

func newClientMetrics(r prometheus.Registerer) *clientMetrics {
	m := &clientMetrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_tunnel_client_connected", Help: "Number of open sessions to tunnel servers."}),
		connects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_client_connects_total", Help: "Attempts to open a session, by result."}, []string{"result"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_tunnel_client_streams", Help: "Number of open connections through the tunnel."}),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_client_dials_total", Help: "Connections dialled for the API server, by result."},
			[]string{"result"}),
	}
	r.MustRegister(m.connected, m.connects, m.streams, m.dials)
	return m
}
