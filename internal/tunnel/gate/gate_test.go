package gate

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// Of three connections through a gate for two, the oldest that has not passed is closed.
func TestOldestGivesWay(t *testing.T) {
	l, gaveWay := listen(t), 0
	g := &Gate{Max: 2, GaveWay: func() { gaveWay++ }, Log: logr.Discard()}
	ctx, cancel := context.WithCancel(context.Background())
	accepted := make(chan net.Conn)
	done := make(chan error, 1)
	go func() {
		done <- g.Serve(ctx, l, func(c net.Conn) {
			accepted <- c
			_, _ = io.Copy(io.Discard, c)
			g.Pass(c) // For the second time, or after it was closed.
			c.Close()
		})
	}()
	passed := dial(t, l)
	g.Pass(<-accepted)
	var clients []net.Conn
	for range 3 {
		clients = append(clients, dial(t, l))
		<-accepted
	}
	if _, err := clients[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest: error %v, want the connection closed", err)
	}
	cancel()
	for _, c := range []net.Conn{passed, clients[1], clients[2]} {
		if _, err := c.Write([]byte{1}); err != nil {
			t.Errorf("another: %v", err)
		}
		c.Close()
	}
	if err := <-done; err != nil || gaveWay != 1 {
		t.Errorf("Serve() = %v, %d connections were closed for newer ones, want 1", err, gaveWay)
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	l := listen(t)
	l.Close()
	if err := (&Gate{Max: 1, Log: logr.Discard()}).Serve(context.Background(), l, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve() = %v, want %v", err, net.ErrClosed)
	}
}
