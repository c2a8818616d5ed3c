//go:build landscape

package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"hortus.dev/hortus/provider/local/networkagent/hook"
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

// join makes a veth pair: eth0 with the address in h, the other end in node, there a port of the bridge if it is not nil.
func join(node, h host, address, nodeAddress string, bridge netlink.Link) error {
	prefix, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	veth := "v" + h.name
	err = node.do(func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: veth}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(h.ns))}
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

// patience bounds a try that gets neither an answer nor a refusal, which fails the test.
const patience = 20 * time.Second

// try connects to "tcp:address:port" or "udp:address:port" and reads the answer. Refusals are unix.EHOSTUNREACH.
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
	l := &lab{node: newHost(t, "node"), a: newHost(t, "a"), b: newHost(t, "b"), c: newHost(t, "c"), outside: newHost(t, "outside")}
	var bridge netlink.Link
	must(t, l.node.do(func() error {
		for path, value := range map[string]string{
			"ipv4/ip_forward": "1", "bridge/bridge-nf-call-iptables": "1",
			"ipv4/icmp_ratelimit": "0", // So that every refusal is reported, however fast the test tries.
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
			newPod("y/c", "app=c", addressC), newPod("y/d", "app=d", addressD, onNode("node-2"), withPort("web", corev1.ProtocolTCP, 81)),
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

// check tries targets from the host; those that begin with "!" must be refused, those with "~" dropped.
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
			t.Errorf("%s to %s: error %v, want a refusal", from.name, target, err)
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

// dropped connects until a packet is counted as refused, and fails if the client noticed.
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

// TestConnections tries real connections between network namespaces. It needs root and the module br_netfilter.
func TestConnections(t *testing.T) {
	l := newLab(t)
	l.state.Refused = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}
	const (
		toA, toB, toC, toD  = "tcp:" + addressA, "tcp:" + addressB, "tcp:" + addressC, "tcp:" + addressD
		toNode, toOutside   = "tcp:" + addressBridge, "tcp:" + addressOutside
		udpB, toService     = "udp:" + addressB, "tcp:" + addressService
		everything, nothing = "10.0.0.0/8", "10.0.0.12/32"
	)

	t.Log("without rules the metadata service is reached")
	must(t, l.a.try(t.Context(), "tcp:"+addressMeta+":80"))

	t.Log("without policies all is allowed but what is refused for good")
	l.set(t)
	l.check(t, l.a, toB+":80", udpB+":53", toC+":80", toD+":80", toNode+":80", toOutside+":80", toService+":80",
		"!tcp:"+addressMeta+":80")
	l.check(t, l.outside, toB+":80")
	l.check(t, l.node, toB+":80", "tcp:"+addressMeta+":80")

	t.Log("a pod that is selected is denied all but itself; its node reaches it")
	l.set(t, newPolicy("x/deny", "app=b", bothTypes))
	l.check(t, l.a, "!"+toB+":80", "!"+udpB+":53", "!"+toService+":80", toC+":80")
	l.check(t, l.b, "!"+toA+":80", "!"+toNode+":80", "!"+toOutside+":80", "!udp:"+addressA+":53", toB+":80", toService+":80")
	l.check(t, l.c, "!"+toB+":80", toA+":80")
	l.check(t, l.outside, "~"+toB+":80", toA+":80")
	l.check(t, l.node, toB+":80", udpB+":53")

	t.Log("policies add up: by label, to a port, after the translation of the Service")
	l.set(t, newPolicy("x/deny", "app=b", bothTypes),
		newPolicy("x/allow", "app=b", from(peers{pods("app=a")}, ports{port(tcp, 8080), port(udp, 53)})))
	l.check(t, l.a, toB+":8080", toService+":80", udpB+":53", "!"+toB+":80")
	l.check(t, l.c, "!"+toB+":8080")

	t.Log("both directions count, and a reply needs no permission")
	allowB := newPolicy("x/allow", "app=b", from(peers{pods("app=a")}, ports{port(tcp, 8080)}))
	l.set(t, allowB, newPolicy("x/deny-a", "app=a", bothTypes))
	l.check(t, l.a, "!"+toB+":8080")
	l.set(t, allowB, newPolicy("x/a", "app=a", bothTypes, to(peers{pods("app=b")}, nil)))
	l.check(t, l.a, toB+":8080", "!"+toB+":80", "!"+toC+":80")

	t.Log("labels change")
	l.state.Pods[0].Labels = labelsOf("app=other")
	l.set(t, allowB)
	l.check(t, l.a, "!"+toB+":8080")
	l.state.Pods[0].Labels = labelsOf("app=a")
	l.set(t, allowB)
	l.check(t, l.a, toB+":8080")

	t.Log("namespaces, and pods of namespaces")
	l.set(t, newPolicy("x/b", "app=b", from(peers{namespaces("team=y")}, nil)))
	l.check(t, l.c, toB+":80")
	l.check(t, l.a, "!"+toB+":80")
	l.check(t, l.outside, "~"+toB+":80")
	l.set(t, newPolicy("x/b", "app=b", from(peers{podsIn("team=y", "app=nobody"), podsIn("", "app=a")}, nil)))
	l.check(t, l.c, "!"+toB+":80")
	l.check(t, l.a, toB+":80")

	t.Log("ranges of ports, and all ports of a protocol")
	l.set(t, newPolicy("x/b", "app=b", from(nil, ports{portRange(tcp, 81, 82), allPorts(udp)})))
	l.check(t, l.a, "!"+toB+":80", toB+":81", toB+":82", "!"+toB+":8080", udpB+":53")
	l.check(t, l.outside, "~"+toB+":80", toB+":81")

	t.Log("named ports, of the pod for ingress and of the peer for egress")
	l.set(t, newPolicy("x/b", "app=b", from(nil, ports{namedPort(tcp, "web")})),
		newPolicy("y/c", "app=c", bothTypes, to(nil, ports{namedPort(tcp, "web")})))
	l.check(t, l.a, toB+":8080", "!"+toB+":80")
	l.check(t, l.c, toB+":8080", "!"+toB+":80", "!"+toA+":8080", toD+":81", "!"+toD+":8080", "!"+toOutside+":81")

	t.Log("blocks with exceptions, also of the node itself")
	l.set(t, newPolicy("y/c", "app=c", bothTypes, to(peers{block(everything, nothing, "10.0.0.0/29")}, nil)))
	l.check(t, l.c, toA+":80", "!"+toB+":80", toD+":80", "!"+toNode+":80", "!"+toOutside+":80")
	l.set(t, newPolicy("y/c", "app=c", bothTypes,
		to(peers{block(addressBridge + "/32"), block("128.0.0.0/1")}, ports{port(tcp, 80)})))
	l.check(t, l.c, toNode+":80", "!"+toNode+":81", toOutside+":80", "!"+toA+":80", "!tcp:"+addressMeta+":80")
	l.set(t, newPolicy("x/b", "app=b", from(peers{block("0.0.0.0/0", addressOutside+"/32")}, nil)))
	l.check(t, l.a, toB+":80")
	l.check(t, l.outside, "~"+toB+":80")

	t.Log("pods come and go")
	allow := newPolicy("x/b", "app=b", from(peers{podsIn("", "app=c")}, nil))
	l.set(t, allow)
	l.check(t, l.c, toB+":80")
	c := l.state.Pods[2]
	l.state.Pods[2].Status.Phase = corev1.PodSucceeded
	l.set(t, allow)
	l.check(t, l.c, "~"+toB+":80") // Its address is that of no known pod.
	l.state.Pods[2] = c
	if took := l.set(t, allow); took > time.Second {
		t.Errorf("a change took %v", took)
	}
	l.check(t, l.c, toB+":80")

	t.Log("a pod connects before its address is known, and gets through when it is")
	l.state.Pods[2].Status.PodIP, l.state.Pods[2].Status.PodIPs = "", nil
	l.set(t, allow)
	before, err := refusedIngress(l)
	must(t, err)
	connected := make(chan error, 1)
	go func() { connected <- l.c.try(t.Context(), toB+":80") }()
	for after := before; after == before && !t.Failed(); {
		after, err = refusedIngress(l)
		must(t, err)
	}
	l.state.Sandboxes = []hook.Sandbox{{Namespace: "y", Name: "c", Addresses: []netip.Addr{netip.MustParseAddr(addressC)}}}
	l.set(t, allow)
	must(t, <-connected)
	l.state.Pods[2], l.state.Sandboxes = c, nil

	t.Log("without policies all is allowed again, and nothing of them is left")
	took := l.set(t)
	t.Logf("a change of policies takes %v", took)
	l.check(t, l.a, toB+":80", toNode+":80", udpB+":53")
	l.check(t, l.b, toOutside+":80")
	must(t, l.node.do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
		if err != nil {
			return err
		}
		var names []string
		for _, c := range chains {
			names = append(names, c.Table.Name+"/"+c.Name)
		}
		if len(chains) != len(baseChains(nil))+2 {
			t.Errorf("chains %v are left", names)
		}
		return nil
	}))
}

// TestTable replaces and changes the table with random rulesets, and checks what the kernel then has.
func TestTable(t *testing.T) {
	node := newHost(t, "node")
	must(t, node.do(func() error {
		if refused, err := (Table{}).Refused(); err != nil || refused != (Refused{}) {
			return fmt.Errorf("without table %+v packets are refused, %w", refused, err)
		}
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		foreign := conn.AddTable(&nftables.Table{Name: "foreign", Family: nftables.TableFamilyIPv4})
		conn.AddChain(&nftables.Chain{Name: "chain", Table: foreign})
		if err := conn.Flush(); err != nil {
			return err
		}
		for seed := range int64(20) {
			r := rand.New(rand.NewSource(seed))
			o := randomCluster(r)
			previous := Decide(o)
			if err := (Table{}).Replace(previous); err != nil {
				return fmt.Errorf("seed %d: %w\n%s", seed, err, previous)
			}
			for range 10 {
				mutate(r, &o)
				next := Decide(o)
				if err := (Table{}).Apply(Diff(previous, next)); err != nil {
					return fmt.Errorf("seed %d: %w\n%s\n%s", seed, err, previous, next)
				}
				if err := kernelHas(conn, next); err != nil {
					return fmt.Errorf("seed %d: %w\n%s\n%s", seed, err, previous, next)
				}
				previous = next
			}
		}

		// A change that does not fit is refused as a whole.
		if err := (Table{}).Replace(Decide(Observed{Node: self})); err != nil {
			return err
		}
		unfit := Change{NewSets: []Set{{Name: "new"}}, RemovedSets: []Set{{Name: "missing"}}}
		if err := (Table{}).Apply(unfit); err == nil {
			return errors.New("a change that does not fit is applied")
		}
		if err := kernelHas(conn, Decide(Observed{Node: self})); err != nil {
			return err
		}
		if _, err := conn.ListChain(foreign, "chain"); err != nil {
			return fmt.Errorf("a foreign chain: %w", err)
		}
		return nil
	}))
}

// kernelHas compares names of chains and sets, their numbers of rules, and the elements of sets and maps.
func kernelHas(conn *nftables.Conn, r Ruleset) error {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	want, got := map[string]string{}, map[string]string{}
	for _, c := range r.Chains {
		want["chain "+c.Name] = fmt.Sprintf("%d rules", len(c.Rules))
	}
	for _, s := range r.Sets {
		want["set "+s.Name] = keys(setElements(s.Kind, s.Elements))
	}
	for _, m := range r.Maps {
		want["set "+m.Name] = keys(addressKeys(m.Elements))
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return err
	}
	for _, c := range chains {
		if c.Table.Name != tableName {
			continue
		}
		rules, err := conn.GetRules(table, c)
		if err != nil {
			return err
		}
		got["chain "+c.Name] = fmt.Sprintf("%d rules", len(rules))
	}
	sets, err := conn.GetSets(table)
	if err != nil {
		return err
	}
	for _, s := range sets {
		s.Table = table
		elements, err := conn.GetSetElements(s)
		if err != nil {
			return err
		}
		got["set "+s.Name] = keys(elements)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the kernel has other rules (-want +got):\n%s", diff)
	}
	return nil
}

func keys(elements []nftables.SetElement) string {
	var out []string
	for _, e := range elements {
		out = append(out, fmt.Sprintf("%x/%t", e.Key, e.IntervalEnd))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestRefusedPackets counts, also across a replacement of the table.
func TestRefusedPackets(t *testing.T) {
	l := newLab(t)
	l.set(t, newPolicy("x/b", "app=b", bothTypes))
	l.check(t, l.a, "!tcp:"+addressB+":80")
	l.check(t, l.b, "!tcp:"+addressA+":80", "!udp:"+addressA+":53", "!tcp:"+addressBridge+":80")
	for range 2 {
		must(t, l.node.do(func() error {
			refused, err := Table{}.Refused()
			if err != nil {
				return err
			}
			if want := (Refused{Egress: 3, Ingress: 1}); refused != want {
				t.Errorf("refused packets: %+v, want %+v", refused, want)
			}
			return Table{}.Replace(*l.applied)
		}))
	}
}

// TestLinkLocalIsNoWayRound tries the addresses of IPv6 that pods have without anybody giving them.
func TestLinkLocalIsNoWayRound(t *testing.T) {
	l := newLab(t)
	var target string
	must(t, l.b.do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V6)
		if err != nil || len(addresses) != 1 {
			return fmt.Errorf("addresses %v, error %w", addresses, err)
		}
		target = net.JoinHostPort(addresses[0].IP.String()+"%eth0", "86")
		listener, err := net.Listen("tcp6", ":86")
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
		}
		return err
	}))
	dial := func(ctx context.Context) error {
		return l.a.do(func() error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp6", target)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
	}
	must(t, dial(t.Context()))
	l.set(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- dial(ctx) }()
	for dropped := uint64(0); dropped == 0; {
		must(t, ctx.Err())
		must(t, l.node.do(func() (err error) {
			dropped, err = droppedLinkLocal()
			return err
		}))
	}
	cancel()
	if err := <-result; err == nil {
		t.Error("a pod reaches another by its link-local address")
	}
}

func droppedLinkLocal() (uint64, error) {
	conn, err := nftables.New()
	if err != nil {
		return 0, err
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv6}
	rules, err := conn.GetRules(table, &nftables.Chain{Name: "link-local"})
	for _, rule := range rules {
		for _, e := range rule.Exprs {
			if counter, ok := e.(*expr.Counter); ok {
				return counter.Packets, nil
			}
		}
	}
	return 0, err
}

// BenchmarkTable measures a node's first rules, and the change of one pod, from the objects to the kernel.
func BenchmarkTable(b *testing.B) {
	for _, local := range []int{110, 1000} {
		for name, change := range map[string]func(*corev1.Pod, int){
			"new-address": func(p *corev1.Pod, i int) {
				p.Status.PodIP, p.Status.PodIPs = fmt.Sprintf("10.2.%d.%d", i/200%200, i%200+2), nil
			},
			"other-labels": func(p *corev1.Pod, i int) { p.Labels = labelsOf(fmt.Sprintf("app=a%d", i%manyApps)) },
		} {
			b.Run(fmt.Sprintf("local-%d/%s", local, name), func(b *testing.B) {
				node := newHost(b, "node")
				must(b, node.do(func() error {
					o := manyPods(1000, local, 200)
					rules := Decide(o)
					if err := (Table{}).Replace(rules); err != nil {
						return err
					}
					i := 0
					for b.Loop() {
						i++
						change(&o.Pods[local/2], i)
						next := Decide(o)
						if err := (Table{}).Apply(Diff(rules, next)); err != nil {
							return err
						}
						rules = next
					}
					return nil
				}))
			})
		}
		b.Run(fmt.Sprintf("local-%d/first", local), func(b *testing.B) {
			node := newHost(b, "node")
			must(b, node.do(func() error {
				for b.Loop() {
					if err := (Table{}).Replace(Decide(manyPods(1000, local, 200))); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}
