//go:build landscape

package policy

import (
	"net/netip"
	"testing"

	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

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

	t.Log("without rules the metadata service is reachable")
	must(t, l.a.try(t.Context(), "tcp:"+addressMeta+":80"))

	t.Log("without policies everything but the permanently rejected is allowed")
	l.set(t)
	l.check(t, l.a, toB+":80", udpB+":53", toC+":80", toD+":80", toNode+":80", toOutside+":80", toService+":80",
		"!tcp:"+addressMeta+":80")
	l.check(t, l.outside, toB+":80")
	l.check(t, l.node, toB+":80", "tcp:"+addressMeta+":80")

	t.Log("a selected pod reaches only itself; its node reaches it")
	l.set(t, newPolicy("x/deny", "app=b", bothTypes))
	l.check(t, l.a, "!"+toB+":80", "!"+udpB+":53", "!"+toService+":80", toC+":80")
	l.check(t, l.b, "!"+toA+":80", "!"+toNode+":80", "!"+toOutside+":80", "!udp:"+addressA+":53", toB+":80", toService+
		":80")
	l.check(t, l.c, "!"+toB+":80", toA+":80")
	l.check(t, l.outside, "~"+toB+":80", toA+":80")
	l.check(t, l.node, toB+":80", udpB+":53")

	t.Log("policies add up: by label, to a port, after the translation of the Service")
	l.set(t, newPolicy("x/deny", "app=b", bothTypes),
		newPolicy("x/allow", "app=b", from(peers{pods("app=a")}, ports{port(tcp, 8080), port(udp, 53)})))
	l.check(t, l.a, toB+":8080", toService+":80", udpB+":53", "!"+toB+":80")
	l.check(t, l.c, "!"+toB+":8080")

	t.Log("both directions count, and a reply needs no rule")
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
	l.check(t, l.c, "~"+toB+":80") // Its address does not belong to a known pod.
	l.state.Pods[2] = c
	t.Logf("a change took %v", l.set(t, allow))
	l.check(t, l.c, toB+":80")

	t.Log("a pod connects before its address is known, and succeeds afterwards")
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

	t.Log("without policies everything is allowed again, and no rules are left")
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
