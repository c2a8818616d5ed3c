package test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// link is the network between the gardenlet and the garden: a proxy that can lose everything that is sent. Connections
// that an outage interrupts stay dead after it, without notice to either end. Those that are opened meanwhile work
// after it, if the client still waits.
type link struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	up    chan struct{}     // Closed while the network works.
	epoch int               // Counts outages.
	opens int               // Connections that were opened in the present or last outage.
	conns map[net.Conn]bool // To be closed at the end.
}

func newLink(t *testing.T, server string) *link {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, target: target.Host, up: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(l.up)
	l.wg.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

func (l *link) url() string { return "https://" + l.listener.Addr().String() }

// cut begins an outage.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.opens, l.up = l.epoch+1, 0, make(chan struct{})
}

// restore ends the outage.
func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.up)
}

// attempts returns how often the gardenlet has tried to connect since the outage began.
func (l *link) attempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opens
}

func (l *link) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	for c := range l.conns {
		_ = c.Close()
	}
	select {
	case <-l.up:
	default:
		close(l.up)
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// track has a connection closed at the end.
func (l *link) track(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
}

func (l *link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return // The test ends.
		}
		l.mu.Lock()
		l.opens++
		epoch, up := l.epoch, l.up
		l.mu.Unlock()
		l.track(c)
		l.wg.Go(func() {
			<-up
			server, err := net.Dial("tcp", l.target)
			if err != nil {
				return
			}
			l.track(server)
			l.wg.Go(func() { l.copy(server, c, epoch) })
			l.copy(c, server, epoch)
		})
	}
}

// copy forwards what comes from one side until the next outage; later data is lost.
func (l *link) copy(to io.WriteCloser, from io.Reader, epoch int) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		dead := l.epoch != epoch
		l.mu.Unlock()
		switch {
		case err != nil:
			if !dead {
				_ = to.Close()
			}
			return
		case dead:
		default:
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}
