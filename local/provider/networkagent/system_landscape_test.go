//go:build landscape

package networkagent

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// TestSystem applies states in its own network namespace. It needs root.
func TestSystem(t *testing.T) {
	runtime.LockOSThread() // Never unlocked: the thread ends with the test and its namespace with it.
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	addr, _ := netlink.ParseAddr("10.250.0.2/24")
	if err := netlink.AddrAdd(link, addr); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	s := &System{ConfDir: t.TempDir(), AllPods: netip.MustParsePrefix("100.96.0.0/16")}
	for range 2 { // A second start finds the objects of the first one.
		if err := s.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	route := func(dst, gw string) Route {
		return Route{Destination: netip.MustParsePrefix(dst), Gateway: netip.MustParseAddr(gw)}
	}
	state := State{
		Pods:   netip.MustParsePrefix("100.96.0.0/24"),
		Routes: []Route{route("100.96.1.0/24", "10.250.0.3"), route("100.96.2.0/24", "10.250.0.4")},
	}
	for range 2 {
		if err := s.Apply(state); err != nil {
			t.Fatal(err)
		}
	}
	state.Routes = []Route{route("100.96.1.0/24", "10.250.0.5")}
	if err := s.Apply(state); err != nil {
		t.Fatal(err)
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol},
		netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		t.Fatal(err)
	}
	if len(routes) != 1 || routes[0].Dst.String() != "100.96.1.0/24" || routes[0].Gw.String() != "10.250.0.5" {
		t.Errorf("routes = %v, want only 100.96.1.0/24 via 10.250.0.5", routes)
	}
	if _, err := os.Stat(filepath.Join(s.ConfDir, confFile)); err != nil {
		t.Error(err)
	}
}
