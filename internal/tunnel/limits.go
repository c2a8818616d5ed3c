package tunnel

import (
	"time"

	"hortus.dev/hortus/internal/tunnel/relay"
)

// Limits of the server. The client runs in the Shoot, where the tenant has access to its certificate, and the tenant
// also controls the requests of the API server. Neither may use more memory of the seed, or more connections, than
// these limits allow.
const (
	// maxHandshakes bounds the connections of a port that are not authenticated yet. A handshake takes a few round
	// trips; an attacker that wants to keep out others has to open this many connections in that time.
	maxHandshakes = 32
	// maxSessions bounds the sessions. A Shoot has one client, and a second one while its pod is replaced; a vanished
	// client is noticed after 15 s, in which a client in a crash loop opens a few more.
	maxSessions = 8
	// maxTunnelConnections bounds the API server's connections through the tunnel, half-closed streams included: one per
	// node for all requests to its kubelet, one for each exec and port-forward, a few for each webhook and APIService.
	// One takes 40 KiB, or 100 KiB once it has carried much.
	maxTunnelConnections = 1000
	// maxEgressConnections bounds the connections to the outside per egress selector: webhooks, identity providers and
	// receivers of audit logs, of which an API server keeps a few connections each. One takes as much as above.
	maxEgressConnections = 500
	// maxHeld bounds the bytes, of all streams together, that were received from clients and that the API server has
	// not read yet. One stream holds at most its window of 256 KiB; beyond the limit the fullest one is broken off.
	maxHeld = 16 << 20
	// maxPings bounds the pings of a client per keepAliveInterval, in which it sends one: each takes a goroutine until it
	// is answered.
	maxPings = 20
	// maxHeader bounds a request of the API server: a request line and a header, both with an address.
	maxHeader = 4 << 10
)

var (
	// tunnelLimits keep connections that users pause, such as logs in a pager, open for a while; maxHeld bounds their
	// cost. There is no limit on idle time, since a session in a container may be idle for as long as its user likes.
	tunnelLimits = relay.Limits{Write: 15 * time.Minute}
	// egressLimits: clients in the API server close idle connections after 90 s, those of HTTP/2 ping every 30 s.
	egressLimits = relay.Limits{Idle: time.Hour, Write: time.Minute}
)
