package etcdmember

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// holdTimeout bounds how long a client waits for etcd. Clients give up a handshake after 20 s.
	holdTimeout = 15 * time.Second
	// maxHeld bounds the connections that wait: an API server has about a hundred.
	maxHeld = 4096
)

// holder accepts connections while etcd is not running and forwards them to etcd once it runs. A refused client would
// wait a second or more before its next attempt; an accepted one waits only until etcd has started.
//
// It listens on etcd's own port, which both open with SO_REUSEPORT.
type holder struct {
	// address is the address for etcd's clients; target is another address of the same etcd, on which only etcd
	// listens.
	address, target string

	mu       sync.Mutex
	listener net.Listener // Nil while nothing is held.
	held     held
	accepted sync.WaitGroup
}

// held signals to waiting connections: released is closed when etcd runs, dropped when it will not run soon.
type held struct{ released, dropped chan struct{} }

// open starts accepting connections. It is called before etcd is stopped.
func (h *holder) open() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener != nil || h.address == "" {
		return nil
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		if err == nil {
			err = set
		}
		return err
	}}
	listener, err := config.Listen(context.Background(), "tcp4", h.address)
	if err != nil {
		return fmt.Errorf("hold connections of clients: %w", err)
	}
	h.listener, h.held = listener, held{make(chan struct{}), make(chan struct{})}
	h.accepted.Add(1)
	go func(held held) {
		defer h.accepted.Done()
		slots := make(chan struct{}, maxHeld)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			select {
			case slots <- struct{}{}:
				go func() {
					defer func() { <-slots }()
					h.hold(c.(*net.TCPConn), held)
				}()
			default:
				c.Close()
			}
		}
	}(h.held)
	return nil
}

// release forwards the held connections to etcd, which runs now.
func (h *holder) release() { h.close(true) }

// drop closes the held connections, since etcd will not run soon.
func (h *holder) drop() { h.close(false) }

func (h *holder) close(forward bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listener == nil {
		return
	}
	// Connections that the kernel has accepted already are accepted here as well, before the listener is closed.
	_ = h.listener.(*net.TCPListener).SetDeadline(time.Now().Add(time.Millisecond))
	h.accepted.Wait()
	h.listener.Close()
	h.listener = nil
	if forward {
		close(h.held.released)
	} else {
		close(h.held.dropped)
	}
}

// hold waits for etcd and then copies bytes between the client and etcd, until one of them ends the connection.
func (h *holder) hold(c *net.TCPConn, held held) {
	defer c.Close()
	timeout := time.NewTimer(holdTimeout)
	defer timeout.Stop()
	select {
	case <-held.released:
	case <-held.dropped:
		return
	case <-timeout.C:
		return
	}
	connection, err := net.DialTimeout("tcp4", h.target, holdTimeout)
	if err != nil {
		return
	}
	defer connection.Close()
	etcd := connection.(*net.TCPConn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(etcd, c) // By splice: nothing is copied through this process.
		_ = etcd.CloseWrite()
	}()
	_, _ = io.Copy(c, etcd)
	_ = c.Close() // Ends the other direction as well.
	<-done
}
