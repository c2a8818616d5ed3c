// Package proxy forwards TCP connections from listeners to targets: the traffic of the cloud's load balancers.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Target is the destination of connections.
type Target struct {
	// Network is the network to dial in, empty for the host's.
	Network string
	// Instance distinguishes instances that have the same address one after the other; empty for plain hosts.
	Instance string
	// Address is host:port.
	Address string
}

// Config is the forwarding configuration of one load balancer.
type Config struct {
	Address netip.Addr
	// Listeners maps a port to its targets.
	Listeners map[int][]Target
	// IdleTimeout closes connections without traffic; 0 means never.
	IdleTimeout time.Duration
	// Allowed are the prefixes that connections may come from. Empty means all.
	Allowed []netip.Prefix
}

const (
	// dialTimeout bounds one attempt. Inside one host a connection takes microseconds; a dead neighbour costs 3 s of ARP.
	dialTimeout = 4 * time.Second
	// shunFor is how long an unreachable target is tried only after the others.
	shunFor = 5 * time.Second
	// keepAliveIdle and the others detect peers that vanished without closing their connections, such as killed
	// instances.
	keepAliveIdle, keepAliveInterval, keepAliveCount = 15 * time.Second, 5 * time.Second, 3
)

// Proxy forwards connections. It is safe for concurrent use.
type Proxy struct {
	dial func(context.Context, Target) (net.Conn, error)

	mu        sync.Mutex
	balancers map[string]*balancer
}

type balancer struct {
	address   netip.Addr
	listeners map[int]*listener
}

// New returns a Proxy that reaches its targets with dial.
func New(dial func(context.Context, Target) (net.Conn, error)) *Proxy {
	return &Proxy{dial: dial, balancers: map[string]*balancer{}}
}

// Apply makes the load balancer id forward as cfg says. Connections from allowed prefixes to targets that stay are
// kept, others are closed. An error names the ports that could not be opened; the others work.
func (p *Proxy) Apply(id string, cfg Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.balancers[id]
	if ok && b.address != cfg.Address {
		b.close()
		ok = false
	}
	if !ok {
		b = &balancer{address: cfg.Address, listeners: map[int]*listener{}}
		p.balancers[id] = b
	}
	for port, l := range b.listeners {
		if _, ok := cfg.Listeners[port]; !ok {
			l.close()
			delete(b.listeners, port)
		}
	}
	var errs []error
	for port, targets := range cfg.Listeners {
		l, ok := b.listeners[port]
		if !ok {
			var err error
			if l, err = p.listen(cfg, port); err != nil {
				errs = append(errs, err)
				continue
			}
			b.listeners[port] = l
		}
		l.update(targets, cfg)
	}
	return errors.Join(errs...)
}

// Remove closes a load balancer and its connections.
func (p *Proxy) Remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.balancers[id]; ok {
		b.close()
		delete(p.balancers, id)
	}
}

// Close closes everything.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, b := range p.balancers {
		b.close()
		delete(p.balancers, id)
	}
}

func (b *balancer) close() {
	for _, l := range b.listeners {
		l.close()
	}
}

// listener is one open port.
type listener struct {
	tcp    net.Listener
	dial   func(context.Context, Target) (net.Conn, error)
	ctx    context.Context
	cancel func()

	mu      sync.Mutex
	targets []Target
	idle    time.Duration
	allowed []netip.Prefix
	next    int
	shunned map[Target]time.Time // Time from which the target is tried in its turn again.
	conns   map[*connection]bool
}

type connection struct {
	target         Target
	client, server net.Conn
}

// listen opens a port. What it allows is known before the first connection.
func (p *Proxy) listen(cfg Config, port int) (*listener, error) {
	tcp, err := net.Listen("tcp", net.JoinHostPort(cfg.Address.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("open listener: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{
		tcp: tcp, dial: p.dial, ctx: ctx, cancel: cancel, allowed: cfg.Allowed,
		shunned: map[Target]time.Time{}, conns: map[*connection]bool{},
	}
	go l.accept()
	return l, nil
}

func (l *listener) accept() {
	for {
		client, err := l.tcp.Accept()
		if l.ctx.Err() != nil {
			return
		}
		if err != nil { // Out of file descriptors, most likely: wait for connections to end.
			select {
			case <-l.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		go l.serve(client)
	}
}

func (l *listener) serve(client net.Conn) {
	defer client.Close()
	if !l.allows(client) {
		reset(client)
		return
	}
	for _, target := range l.order(time.Now()) {
		ctx, cancel := context.WithTimeout(l.ctx, dialTimeout)
		server, err := l.dial(ctx, target)
		cancel()
		if err != nil {
			l.shun(target, time.Now())
			continue
		}
		c := &connection{target: target, client: client, server: server}
		idle, ok := l.add(c)
		if ok {
			forward(client, server, idle)
			l.remove(c)
		}
		server.Close()
		return
	}
	reset(client) // As a host without listener would answer.
}

// allows reports whether the connection comes from an allowed prefix.
func (l *listener) allows(client net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return allowed(l.allowed, client)
}

func allowed(prefixes []netip.Prefix, client net.Conn) bool {
	from, err := netip.ParseAddrPort(client.RemoteAddr().String())
	return len(prefixes) == 0 || err == nil &&
		slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// order returns the targets in the order to try them: round robin, those that failed lately last.
func (l *listener) order(now time.Time) []Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.targets) == 0 {
		return nil
	}
	l.next = (l.next + 1) % len(l.targets)
	var good, bad []Target
	for i := range l.targets {
		t := l.targets[(l.next+i)%len(l.targets)]
		if until, ok := l.shunned[t]; ok && now.Before(until) {
			bad = append(bad, t)
			continue
		}
		good = append(good, t)
	}
	return append(good, bad...)
}

func (l *listener) shun(t Target, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shunned[t] = now.Add(shunFor)
}

// add registers a connection, unless its target was removed, or its client forbidden, while the target was being
// dialled.
func (l *listener) add(c *connection) (idle time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.shunned, c.target)
	if l.ctx.Err() != nil || !slices.Contains(l.targets, c.target) || !allowed(l.allowed, c.client) {
		return 0, false
	}
	l.conns[c] = true
	return l.idle, true
}

func (l *listener) remove(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *listener) update(targets []Target, cfg Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.targets, l.idle, l.allowed = slices.Clone(targets), cfg.IdleTimeout, slices.Clone(cfg.Allowed)
	for t := range l.shunned {
		if !slices.Contains(targets, t) {
			delete(l.shunned, t)
		}
	}
	for c := range l.conns {
		if !slices.Contains(targets, c.target) || !allowed(cfg.Allowed, c.client) {
			c.close()
		}
	}
}

func (l *listener) close() {
	l.cancel()
	l.tcp.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.close()
	}
}

func (c *connection) close() {
	reset(c.client)
	reset(c.server)
}

// reset closes a connection so that the other side notices at once.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
