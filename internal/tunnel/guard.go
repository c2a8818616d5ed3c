package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Frames of the multiplexer: a header of 12 bytes (version, type, flags, stream, length), and contents if the type is
// data. https://github.com/hashicorp/yamux/blob/master/spec.md
const (
	frameHeader = 12
	frameData   = 0
	frameWindow = 1
	framePing   = 2
	flagOpen    = 1 // SYN: opens a stream, or requests the answer to a ping.
)

var (
	errClientStream = errors.New("the client opens streams")
	errPings        = fmt.Errorf("the client sends more than %d pings in %v", maxPings, keepAliveInterval)
	errHeld         = errors.New("the client sends faster than the server reads")
)

// guard is a client's connection as the multiplexer sees it. Reads fail when the client violates the protocol's limits
// in a way that would cost memory. It counts the bytes that streams hold.
type guard struct {
	net.Conn
	held *ledger
	now  func() time.Time

	// Only used by Read.
	header   [frameHeader]byte
	have     int    // Bytes of the header that have been read.
	contents uint32 // Bytes of contents to come.
	pings    int
	since    time.Time // Time of the first of the pings.

	broken atomic.Pointer[error]
}

// breach returns why the guard no longer reads from the client, or nil.
func (g *guard) breach() error {
	if err := g.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// raw returns the connection below TLS, whose Close never waits for the peer.
func (g *guard) raw() net.Conn {
	if c, ok := g.Conn.(interface{ NetConn() net.Conn }); ok {
		return c.NetConn()
	}
	return g.Conn
}

// Read returns data that the client sent, or why the guard no longer reads from it.
func (g *guard) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if breach := g.look(b[:n]); breach != nil {
		g.broken.Store(&breach)
		return 0, breach
	}
	return n, err
}

// look follows the frames in the data read.
func (g *guard) look(b []byte) error {
	for len(b) > 0 {
		if g.contents > 0 {
			n := min(uint32(len(b)), g.contents)
			g.contents -= n
			b = b[n:]
			continue
		}
		n := copy(g.header[g.have:], b)
		g.have += n
		b = b[n:]
		if g.have < frameHeader {
			return nil
		}
		g.have = 0
		if err := g.frame(); err != nil {
			return err
		}
	}
	return nil
}

// frame checks the frame whose header is complete.
func (g *guard) frame() error {
	kind, flags := g.header[1], binary.BigEndian.Uint16(g.header[2:])
	stream, length := binary.BigEndian.Uint32(g.header[4:]), binary.BigEndian.Uint32(g.header[8:])
	opens := flags&flagOpen != 0
	switch {
	case opens && (kind == frameData || kind == frameWindow):
		return errClientStream
	case opens && kind == framePing:
		if now := g.now(); g.pings == 0 || now.Sub(g.since) >= keepAliveInterval {
			g.pings, g.since = 0, now
		}
		if g.pings++; g.pings > maxPings {
			return errPings
		}
	case kind == frameData:
		g.contents = length
		return g.held.add(holding{g, stream}, int(length))
	}
	return nil
}

// holding identifies a stream of a session.
type holding struct {
	session *guard
	stream  uint32
}

// ledger counts the bytes that open streams hold: received, and not yet read.
type ledger struct {
	limit int
	full  func() // Called for each stream that is broken off.

	mu    sync.Mutex
	open  map[holding]*held
	total int
}

type held struct {
	bytes int
	abort func() // Closes the connection; nil until there is one.
}

func newLedger(limit int, full func()) *ledger {
	return &ledger{limit: limit, full: full, open: map[holding]*held{}}
}

// begin starts counting for a new stream. The multiplexer discards data for streams that are not open.
func (l *ledger) begin(h holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[h] = &held{}
}

// onFull sets the function that breaks off the stream's connection.
func (l *ledger) onFull(h holding, abort func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.open[h]; e != nil {
		e.abort = abort
	}
}

// end removes a stream.
func (l *ledger) end(h holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(h)
}

func (l *ledger) forget(h holding) {
	if e := l.open[h]; e != nil {
		l.total -= e.bytes
		delete(l.open, h)
	}
}

// add counts bytes that a stream is about to hold. If all hold too much, the fullest connection is broken off; it fails
// if there is none.
func (l *ledger) add(h holding, bytes int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.open[h]
	if e == nil {
		return nil
	}
	e.bytes += bytes
	l.total += bytes
	if l.total <= l.limit {
		return nil
	}
	var fullest holding
	most := -1
	for h, e := range l.open {
		if e.abort != nil && e.bytes > most {
			fullest, most = h, e.bytes
		}
	}
	if most < 0 {
		return errHeld
	}
	l.full()
	go l.open[fullest].abort()
	l.forget(fullest) // Closing takes a moment, in which no further stream must be closed.
	return nil
}

// taken counts bytes that were read from a stream.
func (l *ledger) taken(h holding, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.open[h]; e != nil {
		bytes = min(bytes, e.bytes) // Data from before begin was not counted.
		e.bytes -= bytes
		l.total -= bytes
	}
}
