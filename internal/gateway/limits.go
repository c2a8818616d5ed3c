package gateway

import (
	"sync"
	"time"

	"hortus.dev/hortus/internal/tunnel/relay"
)

// Limits of a gateway. All control planes of a seed share it, and every client that reaches it can open connections:
// neither a tenant nor a stranger may use up the resources that others need.
const (
	// maxTLS, maxProxy and maxConnect bound the connections of each port that lead to a control plane; see [mayTake]
	// for how they are shared. Each port has places of its own, so that clients that take all places of one port do not
	// affect the others. A control plane of 1,000 nodes has 5,000 connections: each node keeps about three by host name
	// (kubelet, node agent, kube-proxy) and two by apiserver-proxy (pods that watch); its tunnel has one. One takes two
	// descriptors and 19 KiB, or up to 51 KiB while it carries much (BenchmarkMemory, and a large buffer per
	// direction).
	maxTLS     = 12000
	maxProxy   = 7000
	maxConnect = 1000
	// maxUndecided bounds the connections of a port that have not sent their destination yet; the oldest is closed for
	// a new one. Clients send it within a round trip, so that at 100 ms each an attacker that wants to keep out others
	// has to open 10,000 connections per second. There is no bound per client address: behind a load balancer or NAT
	// many clients share one.
	maxUndecided = 1000
	// headerTimeout bounds how long a client may take to send its destination.
	headerTimeout = 10 * time.Second
	// dialTimeout bounds connecting to one backend; it is in the same cluster.
	dialTimeout = 5 * time.Second
	// reportInterval is the pause between two log messages about control planes that have too many connections.
	reportInterval = 10 * time.Second
)

// connectionLimits end unused connections.
var connectionLimits = relay.Limits{
	// Clients of Kubernetes ping every 30 s, the tunnel every 10 s, and API servers close connections without a request
	// after 90 s. The connections that may be silent for long are watches without bookmarks (up to 1 h), and sessions
	// in containers (up to 4 h, when the kubelet ends them).
	Idle: 4 * time.Hour,
	// A side that has ended its direction waits for the rest of an answer.
	HalfOpen: 5 * time.Minute,
	// Connections that users pause, such as logs in a pager, stay open for a while, as in the tunnel.
	Write: 15 * time.Minute,
}

// Kernel buffers of a connection, in bytes. The kernel's own bounds are 4 MiB for sending and 6 MiB for receiving,
// which count as memory of the pod when the other side does not read.
const (
	// clientReceiveBuffer allows 4 MiB/s at a round trip of 50 ms.
	clientReceiveBuffer = 208 << 10
	// backendReceiveBuffer allows 32 MiB/s at a round trip of 1 ms; backends are in the same cluster.
	backendReceiveBuffer = 32 << 10
	// maxUnsent bounds the bytes that wait to be sent. It does not bound the bytes in flight, and therefore not the
	// throughput.
	maxUnsent = 32 << 10
)

// mayTake decides whether a control plane with has connections may have another one, when taken of total places are
// taken: while it has less than half as many as there are free places. One tenant gets at most a third of all places.
// If n tenants take as many as they can get, each has 1/(n+2) of all places, and a later one gets two thirds of that.
// The rule and its properties are in Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
// switches".
func mayTake(has, taken, total int) bool { return 2*has < total-taken }

// places of a port are shared by control planes.
type places struct {
	total int

	mu       sync.Mutex
	taken    int
	of       map[string]int // By namespace; only those that have connections.
	reported time.Time      // When a refusal was last reported.
}

func newPlaces(total int) *places { return &places{total: total, of: map[string]int{}} }

// take takes a place for a connection to a control plane, if it may have one. Otherwise report says whether to log it:
// refusals come in bursts.
func (p *places) take(namespace string, now time.Time) (ok, report bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !mayTake(p.of[namespace], p.taken, p.total) {
		report = now.Sub(p.reported) >= reportInterval
		if report {
			p.reported = now
		}
		return false, report
	}
	p.of[namespace]++
	p.taken++
	return true, false
}

// release releases a place.
func (p *places) release(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[namespace]--; p.of[namespace] == 0 {
		delete(p.of, namespace)
	}
}
