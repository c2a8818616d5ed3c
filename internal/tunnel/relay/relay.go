// Package relay copies bytes between two connections in both directions and keeps half closes.
package relay

import (
	"errors"
	"io"
	"net"
	"sync"
)

// halfCloser can end its write side and continue to read. TCP, TLS and tunnel streams all can.
type halfCloser interface{ CloseWrite() error }

// Both copies between a and b until both directions have ended, then closes both. When one side ends cleanly the
// other side's writes are closed and its answer still flows; when one side fails both are broken off at once.
// It returns the number of bytes copied from a to b and from b to a.
func Both(a, b net.Conn) (toB, toA int64) {
	once := sync.OnceFunc(func() { breakOff(a); breakOff(b) })
	return both(a, b, io.Copy, once)
}

// both runs copy in both directions.
func both(a, b net.Conn, copy func(io.Writer, io.Reader) (int64, error), abort func()) (toB, toA int64) {
	var wg sync.WaitGroup
	wg.Go(func() { toB = oneWay(b, a, copy, abort) })
	toA = oneWay(a, b, copy, abort)
	wg.Wait()
	_, _ = a.Close(), b.Close()
	return toB, toA
}

// breakOff closes c so that its peer sees a failure: without TLS' close_notify, and with a reset on TCP. Otherwise a
// truncated stream would look complete.
func breakOff(c net.Conn) {
	if p, ok := c.(*Prefixed); ok {
		c = p.Conn
	}
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// oneWay copies src to dst. io.Copy splices inside the kernel when both are TCP connections.
func oneWay(dst, src net.Conn, copy func(io.Writer, io.Reader) (int64, error), abort func()) int64 {
	n, err := copy(dst, src)
	if err != nil {
		abort()
		return n
	}
	half, ok := dst.(halfCloser)
	if !ok {
		abort()
		return n
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		abort()
	}
	return n
}

// Prefixed is a connection whose first bytes have already been read. Reads return them first.
type Prefixed struct {
	net.Conn
	prefix []byte
}

// WithPrefix returns conn with prefix put back in front of what is still to be read; without a prefix conn itself,
// so that splicing stays possible.
func WithPrefix(conn net.Conn, prefix []byte) net.Conn {
	if len(prefix) == 0 {
		return conn
	}
	return &Prefixed{Conn: conn, prefix: prefix}
}

// Read returns the prefix first, then data of the connection.
func (p *Prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) > 0 {
		n := copy(b, p.prefix)
		p.prefix = p.prefix[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// CloseWrite ends the write side of the underlying connection, or closes it if it cannot be half closed.
func (p *Prefixed) CloseWrite() error {
	if half, ok := p.Conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return p.Conn.Close()
}
