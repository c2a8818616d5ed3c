package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// stubborn is a connection through a bastion that does not answer: Close alone does not end it.
type stubborn struct{ net.Conn }

func (stubborn) Close() error { return nil }

// A server that accepts a connection and is silent, such as a load balancer without a machine, keeps nobody waiting.
func TestSilentServer(t *testing.T) {
	config := &ssh.ClientConfig{User: user, HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		start := time.Now()
		_, err := handshake(t.Context(), stubborn{here}, here, config)
		took := time.Since(start)
		if err == nil || !strings.Contains(err.Error(), "does not answer") || took != handshakeTimeout {
			t.Errorf("the handshake ends after %v with %v", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := handshake(ctx, stubborn{here}, here, config)
		if took := time.Since(start); !errors.Is(err, context.Canceled) || took != time.Second {
			t.Errorf("the handshake ends after %v with %v", took, err)
		}
	})
}

// Only a Bastion that has not answered may be one that another address could reach.
func TestErrorsOfTheBastion(t *testing.T) {
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closing.Close()
	go func() {
		for {
			conn, err := closing.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	refuses := serve(t, "127.0.0.1", "0", func(ssh.PublicKey) bool { return false }, true)
	for name, tc := range map[string]struct {
		address  string
		answered bool
		err      string
	}{
		"nobody listens":                        {gone.Addr().String(), false, "connect to the Bastion at 127.0.0.1:"},
		"a load balancer that does not forward": {closing.Addr().String(), false, "connect to the Bastion at 127.0.0.1:"},
		"the key is refused":                    {refuses.address.String(), true, "log in to the Bastion at 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			at := netip.MustParseAddrPort(tc.address)
			r := route{bastion: at.Addr().String(), port: fmt.Sprint(at.Port()), bastionKey: newKey(t)}
			_, answered, err := r.tryBastion(t.Context())
			if err == nil || answered != tc.answered {
				t.Fatalf("tryBastion() = %t, %v, want %t", answered, err, tc.answered)
			}
			text := r.bastionError(answered, err).Error()
			if !strings.HasPrefix(text, tc.err) || strings.Contains(text, "--cidr") == tc.answered {
				t.Errorf("the error is %q", text)
			}
		})
	}
}

// The SSH server of a new machine may run before its user data has been applied.
func TestBastionThatStarts(t *testing.T) {
	key := newKey(t)
	var refused atomic.Bool
	s := serve(t, "127.0.0.1", "0", func(ssh.PublicKey) bool { return refused.Swap(true) }, true)
	client, err := route{
		bastion: "127.0.0.1", port: fmt.Sprint(s.address.Port()), bastionKey: key,
	}.dialBastion(t.Context())
	if err != nil {
		t.Fatalf("a key that is refused at first: %v", err)
	}
	client.Close()
}
