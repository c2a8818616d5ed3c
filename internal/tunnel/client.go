package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/yamux"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/egress"
	"hortus.dev/hortus/internal/tunnel/certs"
	"hortus.dev/hortus/internal/tunnel/relay"
)

const (
	// minBackoff and maxBackoff bound the wait between two attempts. The Shoot's logs and exec are down meanwhile, so
	// the upper bound stays short; jitter keeps thousands of clients from returning in step after a gateway restart.
	minBackoff = 250 * time.Millisecond
	maxBackoff = 15 * time.Second
	// stableAfter is how long a session must have lived for the next wait to begin at the minimum again.
	stableAfter = 10 * time.Second
)

// Client keeps a session open to every server named in Destinations.
type Client struct {
	// Gateway is host:port of the seed's gateway. The name is resolved for every attempt, so that the session follows
	// the control plane when it moves to another seed.
	Gateway string
	// Destinations are the values of the destination header, one session each.
	Destinations []string
	// ServerName is the name the server's certificate must carry.
	ServerName string

	Certs    *certs.Files
	Clock    clock.Clock
	Log      logr.Logger
	Registry prometheus.Registerer
	// Dial opens TCP connections, to the gateway and to targets; nil is net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	targets   *egress.Dialer
	connected atomic.Int32
	metrics   *clientMetrics
}

// Run keeps the sessions until ctx ends and returns when all connections are closed.
func (c *Client) Run(ctx context.Context) {
	c.metrics = newClientMetrics(c.Registry)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	c.targets = &egress.Dialer{Rules: egress.Inside(nil, nil), Dial: c.Dial}
	var wg sync.WaitGroup
	for _, d := range c.Destinations {
		wg.Go(func() { c.keep(ctx, d) })
	}
	wg.Wait()
}

// Connected reports whether every destination has a session.
func (c *Client) Connected() bool { return int(c.connected.Load()) == len(c.Destinations) }

// keep opens one session after the other.
func (c *Client) keep(ctx context.Context, destination string) {
	log := c.Log.WithValues("destination", destination)
	for attempt := 0; ctx.Err() == nil; attempt++ {
		start := c.Clock.Now()
		err := c.session(ctx, log, destination)
		if ctx.Err() != nil {
			return
		}
		if c.Clock.Since(start) >= stableAfter {
			attempt = 0
		}
		wait := backoff(attempt, rand.Float64())
		log.Info("Tunnel server cannot be reached, or has ended the session", "reason", err.Error(), "retryAfter", wait.String())
		select {
		case <-c.Clock.After(wait):
		case <-ctx.Done():
		}
	}
}

// backoff returns the wait after failed attempt n (from 0): it doubles up to the maximum; jitter in [0,1) reduces it by
// up to half.
func backoff(n int, jitter float64) time.Duration {
	d := maxBackoff
	if n < 10 { // Larger shifts exceed the maximum anyway.
		d = min(minBackoff<<n, maxBackoff)
	}
	return d - time.Duration(jitter*float64(d)/2)
}

// session opens one session and serves its streams until it breaks.
func (c *Client) session(ctx context.Context, log logr.Logger, destination string) error {
	conn, err := c.connect(ctx, destination)
	if err != nil {
		c.metrics.connects.WithLabelValues("error").Inc()
		return err
	}
	defer conn.Close()
	session, err := yamux.Server(conn, sessionConfig(log))
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	c.metrics.connects.WithLabelValues("ok").Inc()
	c.metrics.connected.Inc()
	c.connected.Add(1)
	log.Info("Connected to tunnel server")
	var wg sync.WaitGroup
	defer func() {
		_ = session.Close() // Ends all streams, and with them their goroutines.
		wg.Wait()
		c.connected.Add(-1)
		c.metrics.connected.Dec()
	}()
	for {
		y, err := session.AcceptStreamWithContext(ctx)
		if err != nil {
			return fmt.Errorf("session ended: %w", err)
		}
		wg.Go(func() { c.serve(ctx, newStream(y, nil, nil)) })
	}
}

// connect dials the gateway, requests the destination and authenticates to the server behind it.
func (c *Client) connect(ctx context.Context, destination string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*handshakeTimeout)
	defer cancel()
	raw, err := c.Dial(ctx, "tcp", c.Gateway)
	if err != nil {
		return nil, fmt.Errorf("dial gateway: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, err := c.handshake(ctx, raw, destination)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

func (c *Client) handshake(ctx context.Context, raw net.Conn, destination string) (net.Conn, error) {
	request := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\n\r\n",
		c.Gateway, c.Gateway, DestinationHeader, destination)
	if _, err := raw.Write([]byte(request)); err != nil {
		return nil, fmt.Errorf("send request to gateway: %w", err)
	}
	r := bufio.NewReader(raw)
	answer, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("read gateway's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("gateway refused: %s", answer.Status)
	}
	if r.Buffered() > 0 {
		return nil, errors.New("gateway sent data before the handshake")
	}
	config, err := c.Certs.Client(c.ServerName)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake with tunnel server: %w", err)
	}
	return conn, nil
}

// serve dials the target that a new stream requests and copies until both ends are done.
func (c *Client) serve(ctx context.Context, s *stream) {
	_ = s.SetReadDeadline(time.Now().Add(handshakeTimeout))
	target, err := readFrame(s, maxTargetLength)
	if err != nil {
		_ = s.Close()
		return
	}
	_ = s.SetReadDeadline(time.Time{})
	conn, err := c.dialTarget(ctx, target)
	if err != nil {
		c.metrics.dials.WithLabelValues("error").Inc()
		c.Log.V(1).Info("Target of a tunneled connection cannot be reached", "target", target, "reason", err.Error())
	} else {
		c.metrics.dials.WithLabelValues("ok").Inc()
	}
	if answerErr := answerDial(s, err); err != nil || answerErr != nil {
		_ = s.Close()
		if conn != nil {
			_ = conn.Close()
		}
		return
	}
	c.metrics.streams.Inc()
	defer c.metrics.streams.Dec()
	relay.Both(s, conn)
}

// dialTarget connects to an address, or to a name: the API server resolves services itself, but a Node may have only a
// host name.
func (c *Client) dialTarget(ctx context.Context, target string) (net.Conn, error) {
	conn, err := c.targets.DialContext(ctx, target)
	switch egress.ResultOf(err) {
	case egress.Allowed:
		return conn, nil
	case egress.RefusedAddress, egress.RefusedName:
		return nil, &dialError{dialForbidden, err.Error()}
	default:
		return nil, err
	}
}
