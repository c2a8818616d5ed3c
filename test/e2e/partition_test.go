//go:build landscape

package e2e

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netns"
)

const (
	// cloudAddress serves the cloud's API, buckets and DNS.
	cloudAddress = "198.18.0.1"
	// gardenAddress serves the garden's API to gardenlets.
	gardenAddress = "198.18.8.1"
)

// networkOf is the network namespace of an instance of the cloud.
func networkOf(instance string) string { return "/run/netns/hortus-" + instance }

// cutOff drops all packets that a network namespace, including its pods, sends to addresses. The returned function ends
// this, as does the end of the test.
func cutOff(t *testing.T, path string, addresses ...string) (heal func()) {
	t.Helper()
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "hortus-e2e-cut-off"}
	change := func(change func(*nftables.Conn)) {
		t.Helper()
		ns, err := netns.GetFromPath(path)
		if err != nil {
			t.Errorf("open network namespace %s: %v", path, err)
			return
		}
		defer ns.Close()
		connection, err := nftables.New(nftables.WithNetNSFd(int(ns)))
		if err != nil {
			t.Errorf("open nftables in %s: %v", path, err)
			return
		}
		change(connection)
		if err := connection.Flush(); err != nil {
			t.Errorf("write nftables in %s: %v", path, err)
		}
	}
	heal = sync.OnceFunc(func() { change(func(c *nftables.Conn) { c.DelTable(table) }) })
	t.Cleanup(heal)
	change(func(c *nftables.Conn) {
		c.AddTable(table)
		// Packets of pods are forwarded, all others are output.
		for name, hook := range map[string]*nftables.ChainHook{
			"forward": nftables.ChainHookForward, "output": nftables.ChainHookOutput,
		} {
			chain := c.AddChain(&nftables.Chain{
				Name: name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
			})
			for _, address := range addresses {
				const destinationOffset, destinationLength = 16, 4 // Offset in the header of IPv4.
				c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
					&expr.Payload{
						DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: destinationLength,
					},
					&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: netip.MustParseAddr(address).AsSlice()},
					&expr.Verdict{Kind: expr.VerdictDrop},
				}})
			}
		}
	})
	return heal
}
