package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// forward copies both ways until both sides have ended. The end of one direction is passed on while the other
// continues.
func forward(client, server net.Conn, idle time.Duration) {
	for _, c := range []net.Conn{client, server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
				Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
			})
		}
	}
	var watch *idleWatch
	if idle > 0 {
		watch = newIdleWatch(idle, client, server)
		defer watch.stop()
	}
	var wg sync.WaitGroup
	wg.Go(func() { copyOneWay(server, client, watch) })
	wg.Go(func() { copyOneWay(client, server, watch) })
	wg.Wait()
}

// copyOneWay copies until from ends, and passes the end on. If the copy breaks, both connections are closed.
func copyOneWay(to, from net.Conn, watch *idleWatch) {
	var err error
	if watch == nil {
		_, err = io.Copy(to, from) // TCP to TCP stays in the kernel (splice).
	} else {
		_, err = io.Copy(to, io.TeeReader(from, watch))
	}
	if err != nil {
		reset(from)
		reset(to)
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() == nil {
			return
		}
	}
	to.Close()
}

// idleWatch closes connections through which nothing has passed for a time.
type idleWatch struct {
	limit time.Duration
	last  atomic.Int64 // Monotonic nanoseconds since start.
	start time.Time
	done  chan struct{}
}

func newIdleWatch(limit time.Duration, conns ...net.Conn) *idleWatch {
	w := &idleWatch{limit: limit, start: time.Now(), done: make(chan struct{})}
	go func() {
		wait := limit
		for {
			select {
			case <-w.done:
				return
			case <-time.After(wait):
			}
			quiet := time.Since(w.start) - time.Duration(w.last.Load())
			if quiet >= limit {
				for _, c := range conns {
					reset(c)
				}
				return
			}
			wait = limit - quiet
		}
	}()
	return w
}

// Write notes that something has passed.
func (w *idleWatch) Write(p []byte) (int, error) {
	w.last.Store(int64(time.Since(w.start)))
	return len(p), nil
}

func (w *idleWatch) stop() { close(w.done) }
