package policy

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Offsets and lengths in the headers of IPv4 (RFC 791, section 3.1) and of TCP, UDP and SCTP, which all begin with the
// ports.
const (
	offsetSource          = 12
	offsetDestination     = 16
	addressBytes          = 4
	offsetDestinationPort = 2
	portBytes             = 2
)

// Registers for keys. The first is the beginning of a register of 16 bytes, the others are its next parts of 4 bytes.
const (
	firstRegister  = unix.NFT_REG_1
	secondRegister = unix.NFT_REG32_01
	thirdRegister  = unix.NFT_REG32_02
)

// Bits of the connection state: enum ip_conntrack_info and NF_CT_STATE_BIT in the kernel's nf_conntrack_common.h.
const (
	stateEstablished = 1 << 1
	stateRelated     = 1 << 2
)

// rejectAdminProhibited is code 13 of ICMP type 3 (RFC 1812, section 5.2.7.1).
const rejectAdminProhibited = 13

func loadAddress(offset, register uint32) *expr.Payload {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: addressBytes}
}

func loadPort(register uint32) *expr.Payload {
	return &expr.Payload{
		DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offsetDestinationPort, Len: portBytes,
	}
}

func loadProtocol(register uint32) *expr.Meta {
	return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}
}

func expressions(r Rule) []expr.Any {
	var out []expr.Any
	for _, m := range r.Matches {
		out = append(out, conditions(m)...)
	}
	if r.Counter != "" {
		out = append(out, &expr.Objref{Type: int(nftables.ObjTypeCounter), Name: r.Counter})
	}
	switch r.Verdict {
	case Accept:
		out = append(out, &expr.Verdict{Kind: expr.VerdictAccept})
	case Reject:
		out = append(out, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: rejectAdminProhibited})
	case Drop:
		out = append(out, &expr.Verdict{Kind: expr.VerdictDrop})
	case ToChainOfSource:
		out = append(out, loadAddress(offsetSource, firstRegister), verdictOf(r.Map))
	case ToChainOfDestination:
		out = append(out, loadAddress(offsetDestination, firstRegister), verdictOf(r.Map))
	}
	return out
}

// verdictOf looks the first register up in a map. A destination of 0 is the register of the verdict.
func verdictOf(name string) *expr.Lookup {
	return &expr.Lookup{
		SourceRegister: firstRegister, SetName: name, IsDestRegSet: true, DestRegister: unix.NFT_REG_VERDICT,
	}
}

func conditions(m Match) []expr.Any {
	in := &expr.Lookup{SourceRegister: firstRegister, SetName: m.Set}
	switch m.Kind {
	case Established:
		return []expr.Any{
			&expr.Ct{Key: expr.CtKeySTATE, Register: firstRegister},
			&expr.Bitwise{
				SourceRegister: firstRegister, DestRegister: firstRegister, Len: 4,
				Mask: binaryutil.NativeEndian.PutUint32(stateEstablished | stateRelated), Xor: make([]byte, 4),
			},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: firstRegister, Data: make([]byte, 4)},
		}
	case InSource:
		return []expr.Any{loadAddress(offsetSource, firstRegister), in}
	case InDestination:
		return []expr.Any{loadAddress(offsetDestination, firstRegister), in}
	case InPairs:
		return []expr.Any{loadAddress(offsetSource, firstRegister), loadAddress(offsetDestination, secondRegister), in}
	case InServices:
		return []expr.Any{
			loadAddress(offsetDestination, firstRegister), loadProtocol(secondRegister), loadPort(thirdRegister), in,
		}
	case ToPrefix:
		return matchPrefix(m.Prefix)
	case ToPorts:
		return matchPorts(m)
	}
	panic(fmt.Sprintf("unknown condition: %d", m.Kind))
}

func matchPrefix(p netip.Prefix) []expr.Any {
	mask := uint32(0xffffffff) << (32 - p.Bits())
	return []expr.Any{
		loadAddress(offsetDestination, firstRegister),
		&expr.Bitwise{
			SourceRegister: firstRegister, DestRegister: firstRegister, Len: addressBytes,
			Mask: binaryutil.BigEndian.PutUint32(mask), Xor: make([]byte, addressBytes),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: p.Masked().Addr().AsSlice()},
	}
}

func matchPorts(m Match) []expr.Any {
	out := []expr.Any{
		loadProtocol(firstRegister),
		&expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: []byte{byte(m.Protocol)}},
	}
	first, last := binaryutil.BigEndian.PutUint16(m.First), binaryutil.BigEndian.PutUint16(m.Last)
	switch m.First {
	case 0:
		return out
	case m.Last:
		return append(out, loadPort(firstRegister), &expr.Cmp{Op: expr.CmpOpEq, Register: firstRegister, Data: first})
	}
	inRange := &expr.Range{Op: expr.CmpOpEq, Register: firstRegister, FromData: first, ToData: last}
	return append(out, loadPort(firstRegister), inRange)
}
