package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// packet is the first packet of a connection. Without forwarding it is for the node itself.
type packet struct {
	source, destination netip.Addr
	protocol            Protocol
	port                uint16
	toNode              bool
}

func (p packet) String() string {
	return fmt.Sprintf("%s > %s %s/%d toNode=%t", p.source, p.destination, p.protocol, p.port, p.toNode)
}

// passes reports whether the kernel would accept the packet with these rules.
func passes(r Ruleset, p packet) bool { return fate(r, p) == Accept }

// fate is the kernel's verdict on the packet: Accept, Reject or Drop.
func fate(r Ruleset, p packet) Verdict {
	hooks := []Hook{ForwardEgress, ForwardIngress}
	if p.toNode {
		hooks = []Hook{Input}
	}
	for _, hook := range hooks {
		i := slices.IndexFunc(r.Chains, func(c Chain) bool { return c.Hook == hook })
		if i < 0 {
			continue
		}
		if verdict := r.Chains[i].fate(r, p); verdict != Accept {
			return verdict
		}
	}
	return Accept
}

func (c Chain) fate(r Ruleset, p packet) Verdict {
	for _, rule := range c.Rules {
		if slices.ContainsFunc(rule.Matches, func(m Match) bool { return !m.holds(r, p) }) {
			continue
		}
		address := p.source
		switch rule.Verdict {
		case Accept, Reject, Drop:
			return rule.Verdict
		case ToChainOfDestination:
			address = p.destination
		}
		m, ok := slices.BinarySearchFunc(r.Maps, rule.Map, func(m Map, name string) int { return cmp.Compare(m.Name, name) })
		if !ok {
			panic("no map " + rule.Map)
		}
		elements := r.Maps[m].Elements
		if e, ok := slices.BinarySearchFunc(elements, address,
			func(j Jump, a netip.Addr) int { return j.Address.Compare(a) }); ok {
			next := slices.IndexFunc(r.Chains, func(c Chain) bool { return c.Name == elements[e].Chain })
			return r.Chains[next].fate(r, p)
		}
	}
	if c.Hook == NoHook {
		panic("chain " + c.Name + " has no end")
	}
	return Accept
}

func (m Match) holds(r Ruleset, p packet) bool {
	switch m.Kind {
	case Established:
		return false
	case ToPrefix:
		return m.Prefix.Contains(p.destination)
	case ToPorts:
		return m.Protocol == p.protocol && (m.First == 0 || m.First <= p.port && p.port <= m.Last)
	}
	s, ok := slices.BinarySearchFunc(r.Sets, m.Set, func(s Set, name string) int { return cmp.Compare(s.Name, name) })
	if !ok {
		panic("no set " + m.Set)
	}
	set := r.Sets[s]
	has := func(e Element) bool {
		_, ok := slices.BinarySearchFunc(set.Elements, e, Element.compare)
		return ok
	}
	inRange := func(a netip.Addr) bool {
		return slices.ContainsFunc(set.Elements,
			func(e Element) bool { return e.Address.Compare(a) <= 0 && a.Compare(e.Last) <= 0 })
	}
	switch m.Kind {
	case InSource:
		return has(Element{Address: p.source}) || set.Kind == Ranges && inRange(p.source)
	case InDestination:
		return has(Element{Address: p.destination}) || set.Kind == Ranges && inRange(p.destination)
	case InPairs:
		return has(Element{Address: p.source, Last: p.destination})
	case InServices:
		return has(Element{Address: p.destination, Protocol: p.protocol, Port: p.port})
	}
	panic(fmt.Sprintf("unknown condition: %d", m.Kind))
}
