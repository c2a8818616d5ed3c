package tunnel

import (
	"time"

	"hortus.dev/hortus/internal/tunnel/relay"
)

// Limits of the server. The client sits in the Shoot, where its certificate is in the hands of the tenant, and so is
// what the API server asks for: neither may take memory of the seed, nor the place of other connections, beyond these.
const (
	// maxHandshakes bounds the connections of a port that have not proven who they are. A handshake takes a few round
	// trips; whoever wants to keep out others has to send this many connections in that time.
	maxHandshakes = 32
	// maxSessions bounds the sessions. A Shoot has one client, and a second one while its pod is replaced; a client that
	// vanished is noticed after 15 s, in which one that crashes again and again opens a few more.
	maxSessions = 8
	// maxTunnelConnections bounds the API server's connections through the tunnel, half-closed streams included: one per
	// node for all requests to its kubelet, one for each exec and port-forward, a few for each webhook and APIService.
	// One takes 40 KiB, or 100 KiB once it has carried much.
	maxTunnelConnections = 1000
	// maxEgressConnections bounds the connections to the outside per egress selector: webhooks, identity providers and
	// receivers of audit logs, of which an API server keeps a few connections each. One takes as much as above.
	maxEgressConnections = 500
	// maxHeld bounds the bytes, of all streams together, that have come from clients and that the API server has not taken
	// yet. One stream holds at most its window of 256 KiB; beyond the bound the fullest is broken off.
	maxHeld = 16 << 20
	// maxPings bounds the pings of a client per keepAliveInterval, in which it sends one: each takes a goroutine until it
	// is answered.
	maxPings = 20
	// maxHeader bounds a request of the API server: a request line and a header, both with an address.
	maxHeader = 4 << 10
)

var (
	// tunnelLimits: what users pause, such as logs in a pager, stays open for a while; maxHeld bounds what it costs. There
	// is no limit on idle time, since a session in a container may be idle for as long as its user likes.
	tunnelLimits = relay.Limits{Write: 15 * time.Minute}
	// egressLimits: clients in the API server close idle connections after 90 s, those of HTTP/2 ping every 30 s.
	egressLimits = relay.Limits{Idle: time.Hour, Write: time.Minute}
)
