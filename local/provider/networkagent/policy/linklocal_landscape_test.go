//go:build landscape

package policy

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
)

// TestLinkLocalIsNoWayRound tries the IPv6 addresses that pods assign themselves.
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
