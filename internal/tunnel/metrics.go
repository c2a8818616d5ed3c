package tunnel

import "github.com/prometheus/client_golang/prometheus"

type serverMetrics struct {
	sessions prometheus.Gauge
	streams  prometheus.Gauge
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	limited  *prometheus.CounterVec

	egress     *prometheus.CounterVec
	egressOpen *prometheus.GaugeVec
}

// Limits, as the metric names them.
const (
	limitConnections = "connections" // The API server has too many connections.
	limitHandshakes  = "handshakes"  // A connection without a certificate was closed for a newer one.
	limitSessions    = "sessions"    // A session was closed for a newer one.
	limitHeld        = "held"        // A connection was broken off because it held too much.
	limitProtocol    = "protocol"    // A client violated the limits of the protocol.
)

// Egress selectors of API servers.
const (
	selectorCluster      = "cluster"
	selectorControlPlane = "controlplane"
)

func newServerMetrics(r prometheus.Registerer) *serverMetrics {
	m := &serverMetrics{
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_tunnel_server_sessions", Help: "Number of connected tunnel clients."}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_tunnel_server_streams", Help: "Number of open connections through the tunnel."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_server_requests_total", Help: "Connections requested by the API server, by HTTP status code."},
			[]string{"code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_server_transferred_bytes_total", Help: "Bytes carried by finished connections, by direction."},
			[]string{"direction"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_server_limits_exceeded_total", Help: "What was refused or ended because of a limit, by limit."},
			[]string{"limit"}),
		egress: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_server_egress_connections_total",
			Help: "Connections through egress selectors requested by the API server, by egress selector and result."},
			[]string{"selector", "result"}),
		egressOpen: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hortus_tunnel_server_egress_open_connections",
			Help: "Number of open connections to the outside, by egress selector."},
			[]string{"selector"}),
	}
	r.MustRegister(m.sessions, m.streams, m.requests, m.bytes, m.limited, m.egress, m.egressOpen)
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
			Name: "hortus_tunnel_client_sessions", Help: "Number of open sessions to tunnel servers."}),
		connects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_client_session_attempts_total", Help: "Attempts to open a session, by result."},
			[]string{"result"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hortus_tunnel_client_streams", Help: "Number of open connections through the tunnel."}),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_tunnel_client_dials_total", Help: "Connections dialled for the API server, by result."},
			[]string{"result"}),
	}
	r.MustRegister(m.connected, m.connects, m.streams, m.dials)
	return m
}
