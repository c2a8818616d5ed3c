package apiserverproxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/pires/go-proxyproto"
)

// The client's bytes arrive after a PROXY header with the address that it connected to, and the response returns.
func TestProxyNamesTheDestination(t *testing.T) {
	gateway, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	p := &Proxy{Gateway: gateway.Addr().String(), Log: testr.New(t)}
	wg.Go(func() {
		if err := p.Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	wg.Go(func() {
		conn, err := gateway.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		h, err := proxyproto.Read(r)
		if err != nil {
			t.Errorf("read PROXY header: %v", err)
			return
		}
		if h.Version != 2 || h.DestinationAddr.String() != l.Addr().String() {
			t.Errorf("header has version %d and destination %s, want 2 and %s", h.Version, h.DestinationAddr, l.Addr())
		}
		line, _ := r.ReadString('\n')
		_, _ = conn.Write([]byte("answer to " + line))
	})
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(client)
	if err != nil || string(got) != "answer to hello\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
