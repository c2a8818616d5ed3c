//go:build landscape

package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Addresses of the test's network. The outside also has the address of a metadata service.
const (
	addressA       = "10.0.0.11"
	addressB       = "10.0.0.12"
	addressC       = "10.0.0.13"
	addressD       = "10.1.0.14" // Of a pod on another node, which is the outside.
	addressBridge  = "10.0.0.1"
	addressOutside = "192.168.7.7"
	addressMeta    = "169.254.169.254"
	addressService = "10.96.0.10" // Port 80 of it is port 8080 of pod b.
	answer         = "hello"
)

// host is a network namespace.
type host struct {
	name string
	ns   netns.NsHandle
}

// do runs f on a thread in the host's namespace. Sockets opened there stay there.
func (h host) do(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread ends with the goroutine.
		if err := netns.Set(h.ns); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newHost(t testing.TB, name string) host {
	t.Helper()
	h := host{name: name}
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		h.ns, err = netns.New()
		result <- err
	}()
	must(t, <-result)
	t.Cleanup(func() { _ = h.ns.Close() })
	must(t, h.do(func() error {
		// Addresses of IPv6 are usable at once.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0o644); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	}))
	return h
}

// join makes a veth pair: eth0 with the address in h, the other end in node, there a port of the bridge if it is not
// nil.
func join(node, h host, address, nodeAddress string, bridge netlink.Link) error {
	prefix, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	veth := "v" + h.name
	err = node.do(func() error {
		pair := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: veth}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(h.ns)),
		}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		link, err := netlink.LinkByName(veth)
		if err != nil {
			return err
		}
		if bridge != nil {
			if err := errors.Join(netlink.LinkSetMaster(link, bridge), netlink.LinkSetHairpin(link, true)); err != nil {
				return err
			}
		} else {
			own, err := netlink.ParseAddr(nodeAddress + "/24")
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, own); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(link)
	})
	if err != nil {
		return err
	}
	return h.do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.AddrAdd(link, prefix), netlink.LinkSetUp(link)); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(nodeAddress)})
	})
}

// serve answers on TCP and UDP ports in the host's namespace until the test ends.
func (h host) serve(t testing.TB, tcp, udp []int) {
	t.Helper()
	must(t, h.do(func() error {
		for _, port := range tcp {
			l, err := net.Listen("tcp4", fmt.Sprintf(":%d", port))
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, answer)
					_ = c.Close()
				}
			}()
		}
		for _, port := range udp {
			c, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() {
				buffer := make([]byte, 64)
				for {
					_, client, err := c.ReadFrom(buffer)
					if err != nil {
						return
					}
					_, _ = c.WriteTo([]byte(answer), client)
				}
			}()
		}
		return nil
	}))
}

// patience bounds an attempt with neither a response nor a rejection, which fails the test.
const patience = 20 * time.Second

// try connects to "tcp:address:port" or "udp:address:port" and reads the response. Rejections are unix.EHOSTUNREACH.
func (h host) try(ctx context.Context, target string) error {
	network, address, _ := strings.Cut(target, ":")
	return h.do(func() error {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, network+"4", address)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		if network == "udp" {
			if _, err := io.WriteString(c, "?"); err != nil {
				return err
			}
		}
		buffer := make([]byte, len(answer))
		_, err = io.ReadFull(c, buffer)
		return err
	})
}

// lab is a node with pods on a bridge and an outside.
type lab struct {
	node, a, b, c, outside host
	state                  Observed
	applied                *Ruleset
}

func newLab(t *testing.T) *lab {
	l := &lab{
		node: newHost(t, "node"), a: newHost(t, "a"), b: newHost(t, "b"), c: newHost(t, "c"), outside: newHost(t, "outside"),
	}
	var bridge netlink.Link
	must(t, l.node.do(func() error {
		for path, value := range map[string]string{
			"ipv4/ip_forward": "1", "bridge/bridge-nf-call-iptables": "1",
			"ipv4/icmp_ratelimit": "0", // So that every rejection is reported, however fast the attempts of the test.
		} {
			if err := os.WriteFile("/proc/sys/net/"+path, []byte(value), 0o644); err != nil {
				return err
			}
		}
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "cni0"}}); err != nil {
			return err
		}
		var err error
		if bridge, err = netlink.LinkByName("cni0"); err != nil {
			return err
		}
		address, err := netlink.ParseAddr(addressBridge + "/24")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(bridge, address), netlink.LinkSetUp(bridge))
	}))
	must(t, join(l.node, l.a, addressA+"/24", addressBridge, bridge))
	must(t, join(l.node, l.b, addressB+"/24", addressBridge, bridge))
	must(t, join(l.node, l.c, addressC+"/24", addressBridge, bridge))
	must(t, join(l.node, l.outside, addressOutside+"/24", "192.168.7.1", nil))
	must(t, l.outside.do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, a := range []string{addressMeta, addressD} {
			address, err := netlink.ParseAddr(a + "/32")
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(lo, address); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, l.node.do(func() error {
		for _, destination := range []string{"169.254.0.0/16", "10.1.0.0/24"} {
			_, network, err := net.ParseCIDR(destination)
			if err != nil {
				return err
			}
			if err := netlink.RouteAdd(&netlink.Route{Dst: network, Gw: net.ParseIP(addressOutside)}); err != nil {
				return err
			}
		}
		return translateService()
	}))
	for _, h := range []host{l.node, l.a, l.b, l.c, l.outside} {
		h.serve(t, []int{80, 81, 82, 8080}, []int{53})
	}
	l.state = Observed{
		Node:       self,
		Namespaces: []corev1.Namespace{newNamespace("x", "team=x"), newNamespace("y", "team=y")},
		Pods: []corev1.Pod{
			newPod("x/a", "app=a", addressA), newPod("x/b", "app=b", addressB, withPort("web", corev1.ProtocolTCP, 8080)),
			newPod("y/c", "app=c", addressC),
			newPod("y/d", "app=d", addressD, onNode("node-2"), withPort("web", corev1.ProtocolTCP, 81)),
		},
	}
	return l
}

// translateService does what kube-proxy does for a Service with the endpoint b.
func translateService() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	service, endpoint := netip.MustParseAddr(addressService).AsSlice(), netip.MustParseAddr(addressB).AsSlice()
	table := conn.AddTable(&nftables.Table{Name: "services", Family: nftables.TableFamilyIPv4})
	pre := conn.AddChain(&nftables.Chain{
		Name: "pre", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityNATDest,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: pre, Exprs: []expr.Any{
		loadAddress(offsetDestination, 1), &expr.Cmp{Register: 1, Data: service},
		loadProtocol(1), &expr.Cmp{Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Immediate{Register: 1, Data: endpoint}, &expr.Immediate{Register: 2, Data: []byte{8080 >> 8, 8080 & 0xff}},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
	}})
	post := conn.AddChain(&nftables.Chain{
		Name: "post", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting,
		Priority: nftables.ChainPriorityNATSource,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: []expr.Any{
		loadAddress(offsetSource, 1), &expr.Cmp{Register: 1, Data: endpoint},
		loadAddress(offsetDestination, 1), &expr.Cmp{Register: 1, Data: endpoint}, &expr.Masq{},
	}})
	return conn.Flush()
}

// set applies policies, incrementally unless it is the first time, and returns how long that took.
func (l *lab) set(t *testing.T, policies ...networkingv1.NetworkPolicy) time.Duration {
	t.Helper()
	l.state.Policies = policies
	start := time.Now()
	next := Decide(l.state)
	must(t, l.node.do(func() error {
		if l.applied == nil {
			return Table{}.Replace(next)
		}
		return Table{}.Apply(Diff(*l.applied, next))
	}))
	l.applied = &next
	return time.Since(start)
}

// check tries targets from the host; those that begin with "!" must be rejected, those with "~" dropped.
func (l *lab) check(t *testing.T, from host, targets ...string) {
	t.Helper()
	for _, target := range targets {
		if target, dropped := strings.CutPrefix(target, "~"); dropped {
			if err := l.dropped(t.Context(), from, target); err != nil {
				t.Errorf("%s to %s: %v", from.name, target, err)
			}
			continue
		}
		target, refused := strings.CutPrefix(target, "!")
		err := from.try(t.Context(), target)
		switch {
		case refused && !errors.Is(err, unix.EHOSTUNREACH):
			t.Errorf("%s to %s: error %v, want a rejection", from.name, target, err)
		case !refused && err != nil:
			t.Errorf("%s to %s: %v", from.name, target, err)
		}
	}
	if t.Failed() {
		t.Fatalf("rules:\n%s", l.applied)
	}
}

func refusedIngress(l *lab) (out uint64, err error) {
	err = l.node.do(func() error {
		refused, err := Table{}.Refused()
		out = refused.Ingress
		return err
	})
	return out, err
}

// dropped connects until a packet is counted as refused, and fails if the client has noticed.
func (l *lab) dropped(ctx context.Context, from host, target string) error {
	before, err := refusedIngress(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- from.try(ctx, target) }()
	for after := before; after == before; {
		if ctx.Err() != nil {
			return fmt.Errorf("nothing was refused: %w", <-result)
		}
		if after, err = refusedIngress(l); err != nil {
			return err
		}
	}
	cancel()
	if err := <-result; err == nil || errors.Is(err, unix.EHOSTUNREACH) {
		return fmt.Errorf("error %w, want none from the network", err)
	}
	return nil
}
