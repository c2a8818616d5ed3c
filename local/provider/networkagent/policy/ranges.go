package policy

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// span is a range of IPv4 addresses, both ends included. 64 bits, so that the address after the last one has a number.
type span struct{ first, last uint64 }

const lastAddress = 1<<32 - 1

func prefixSpan(cidr string) (span, bool) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() {
		return span{}, false
	}
	first := uint64(addressNumber(p.Masked().Addr()))
	return span{first, first + 1<<(32-p.Bits()) - 1}, true
}

func addressNumber(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func numberAddress(n uint64) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(n))))
}

// blockSpans returns the addresses of a block without its exceptions. Blocks of IPv6 have none.
func blockSpans(block *networkingv1.IPBlock) []span {
	all, ok := prefixSpan(block.CIDR)
	if !ok {
		return nil
	}
	var except []span
	for _, cidr := range block.Except {
		if e, ok := prefixSpan(cidr); ok {
			except = append(except, e)
		}
	}
	var out []span
	next := all.first // The first address not decided yet.
	for _, e := range mergeSpans(except) {
		if e.first > all.last {
			break
		}
		if e.first > next {
			out = append(out, span{next, e.first - 1})
		}
		next = max(next, e.last+1)
	}
	if next <= all.last {
		out = append(out, span{next, all.last})
	}
	return out
}

// mergeSpans returns the union as sorted spans with gaps between them.
func mergeSpans(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last))
	})
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, s.last)
			continue
		}
		out = append(out, s)
	}
	return out
}
