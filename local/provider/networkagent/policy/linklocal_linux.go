package policy

import (
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// dropLinkLocal makes a second table, for IPv6. Pods of an IPv4 cluster have link-local addresses of IPv6 too, by which
// those of one bridge would reach each other whatever policies say. Such packets are never routed, only bridged; all
// but ICMPv6, which neighbours need to find each other, is dropped. Kernels without IPv6 do not need the table.
func (w *writer) dropLinkLocal() {
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		return
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv6}
	w.conn.AddTable(table)
	w.conn.DelTable(table)
	w.conn.AddTable(table)
	chain := w.conn.AddChain(&nftables.Chain{
		Table: table, Name: "link-local", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
		Priority: nftables.ChainPriorityFilter,
	})
	w.conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Payload{ // The source address begins at byte 8 (RFC 8200, section 3). fe80::/10 (RFC 4291, section 2.4).
			DestRegister: firstRegister, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 4,
		},
		&expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: 4, Mask: []byte{0xff, 0xc0, 0, 0},
			Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: []byte{0xfe, 0x80, 0, 0}},
		loadProtocol(firstRegister),
		&expr.Cmp{Op: expr.CmpOpNeq, Register: firstRegister, Data: []byte{unix.IPPROTO_ICMPV6}},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictDrop}, // Rejections would not reach the sender over the bridge.
	}})
}
