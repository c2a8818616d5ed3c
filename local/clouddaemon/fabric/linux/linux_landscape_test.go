//go:build landscape && linux

package linux_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"hortus.dev/hortus/local/clouddaemon/fabric"
	"hortus.dev/hortus/local/clouddaemon/fabric/linux"
)

// The test needs root. It runs in its own namespaces, isolated from the host.
func TestNetworksAreIsolatedAndReachThePublicNetwork(t *testing.T) {
	ctx := t.Context()
	f := &linux.Fabric{Public: netip.MustParsePrefix("198.18.0.1/16")}
	t.Cleanup(func() {
		if err := linux.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	for range 2 { // The second call finds everything.
		if err := f.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for n := range 2 { // Both networks use the same addresses.
			if err := f.EnsureNetwork(ctx, fabric.Network{
				ID: fmt.Sprintf("net-test%d", n), Gateway: netip.MustParsePrefix("10.1.0.1/24"),
				Uplink: netip.MustParseAddr(fmt.Sprintf("198.18.1.%d", n)),
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	balancer := netip.MustParseAddr("198.18.8.0")
	if err := f.EnsureAddress(ctx, balancer); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		path, err := f.Attach(ctx, fabric.Port{
			InstanceID: fmt.Sprintf("i-test%d", n), NetworkID: fmt.Sprintf("net-test%d", n),
			Address: netip.MustParsePrefix("10.1.0.10/24"), Gateway: netip.MustParseAddr("10.1.0.1"),
		})
		if err != nil {
			t.Fatal(err)
		}
		serve(t, path, fmt.Sprintf("instance %d", n))
	}
	for n := range 2 {
		conn, err := f.Dial(ctx, fmt.Sprintf("net-test%d", n), netip.MustParseAddrPort("10.1.0.10:8080"))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(conn)
		conn.Close()
		if want := fmt.Sprintf("instance %d from 10.1.0.1", n); string(got) != want {
			t.Errorf("network %d answers %q, want %q", n, got, want)
		}
	}
	masqueraded(t, balancer)
	made, err := f.Leftovers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Networks) != 2 || len(made.Instances) != 2 || len(made.Addresses) != 1 {
		t.Errorf("Leftovers() = %+v, want 2 networks, 2 instances, 1 address", made)
	}
}

// serve answers connections to port 8080 in a namespace with its name and the client's address.
func serve(t *testing.T, path, name string) {
	t.Helper()
	var l net.Listener
	inside(t, path, func() (err error) { l, err = net.Listen("tcp4", ":8080"); return err })
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			fmt.Fprintf(c, "%s from %s", name, host)
			c.Close()
		}
	}()
}

// masqueraded checks that an instance reaches a load balancer address on the host under its network's uplink address.
func masqueraded(t *testing.T, balancer netip.Addr) {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(balancer, 8443).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conn net.Conn
	inside(t, "/run/netns/hortus-i-test1", func() (err error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		conn, err = d.DialContext(context.Background(), "tcp4", l.Addr().String())
		return err
	})
	defer conn.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if host, _, _ := net.SplitHostPort(c.RemoteAddr().String()); host != "198.18.1.1" {
		t.Errorf("traffic arrives from %s, want the uplink address 198.18.1.1", host)
	}
}

// The neighbours' ARP entries must stay valid while networks and instances are created and deleted.
func TestHardwareAddressesStay(t *testing.T) {
	ctx := t.Context()
	f := &linux.Fabric{Public: netip.MustParsePrefix("198.18.0.1/16")}
	t.Cleanup(func() {
		if err := linux.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	public := func() string {
		link, err := net.InterfaceByName(linux.PublicBridge)
		if err != nil {
			t.Fatal(err)
		}
		return link.HardwareAddr.String()
	}
	before := public()
	for n := range 16 { // The hardware addresses of the ports are random; one that is lower than all others occurs soon.
		network := fabric.Network{
			ID: fmt.Sprintf("net-test%d", n), Gateway: netip.MustParsePrefix("10.1.0.1/24"),
			Uplink: netip.MustParseAddr(fmt.Sprintf("198.18.1.%d", n)),
		}
		if err := f.EnsureNetwork(ctx, network); err != nil {
			t.Fatal(err)
		}
		if now := public(); now != before {
			t.Fatalf("with %d networks the public bridge has hardware address %s, before it had %s", n+1, now, before)
		}
	}
	instance := func(id string) string {
		path, err := f.Attach(ctx, fabric.Port{
			InstanceID: id, NetworkID: "net-test0", Address: netip.MustParsePrefix("10.1.0.10/24"),
			Gateway: netip.MustParseAddr("10.1.0.1"),
		})
		if err != nil {
			t.Fatal(err)
		}
		var found string
		inside(t, path, func() error {
			link, err := net.InterfaceByName("eth0")
			found = link.HardwareAddr.String()
			return err
		})
		if err := f.Detach(ctx, id); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if first, second := instance("i-test1"), instance("i-test2"); first != second {
		t.Errorf("two instances with the same network address have hardware addresses %s and %s", first, second)
	}
}

func inside(t *testing.T, path string, fn func() error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := netns.Set(ns); err != nil {
		t.Fatal(err)
	}
	err = fn()
	if back := netns.Set(home); back != nil {
		t.Fatal(back)
	}
	if err != nil {
		t.Fatal(err)
	}
}
