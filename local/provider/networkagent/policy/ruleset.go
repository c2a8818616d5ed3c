package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Ruleset describes the content of the agent's nftables table. Its order is fixed, so that equal rulesets print alike.
type Ruleset struct {
	Sets   []Set   // Sorted by name.
	Maps   []Map   // Sorted by name.
	Chains []Chain // Base chains first, then sorted by name.
}

// SetKind is the kind of the elements of a set.
type SetKind int

// Kinds of sets, and the fields of Element that count.
const (
	Addresses SetKind = iota // Single addresses: Address.
	Ranges                   // Disjoint ranges of addresses: Address to Last, inclusive. They never change.
	Pairs                    // Source and destination: Address and Last.
	Services                 // Destination, protocol and port: Address, Protocol and Port.
)

// Set is a named set.
type Set struct {
	Name     string
	Comment  string // The purpose of the set, for people who list the table.
	Kind     SetKind
	Elements []Element // Sorted and distinct.
}

// Element is an element of a set; the kind of the set determines which fields count. The others are zero.
type Element struct {
	Address  netip.Addr
	Last     netip.Addr
	Protocol Protocol
	Port     uint16
}

// Protocol is a protocol above IP by its number, as IANA assigns it.
type Protocol uint8

// Protocols that NetworkPolicies know.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// Map is a verdict map from an address to a chain.
type Map struct {
	Name     string
	Elements []Jump // Sorted by address, which are distinct.
}

// Jump is an element of a Map: packets that match the address continue in the chain.
type Jump struct {
	Address netip.Addr
	Chain   string
}

// Chain is a list of rules. The first rule with a verdict decides; packets that reach the end of a base chain are
// accepted.
type Chain struct {
	Name  string
	Hook  Hook // Zero: no base chain, packets come from maps only.
	Rules []Rule
}

// Hook is the place in the kernel where a base chain sees packets.
type Hook int

// Hooks, in the order in which their chains are evaluated for one packet.
const (
	NoHook         Hook = iota
	ForwardEgress       // Forwarded packets, first.
	ForwardIngress      // Forwarded packets, after ForwardEgress.
	Input               // Packets to the node itself.
)

// Rule applies its verdict to packets that match all of Matches.
type Rule struct {
	Matches []Match
	Counter string // Counter of the packets that match; empty: none.
	Verdict Verdict
	Map     string // Of the verdicts ToChainOfSource and ToChainOfDestination.
}

// Verdict is the decision about a packet.
type Verdict int

// Verdicts.
const (
	Accept Verdict = iota
	Reject         // Dropped, and the sender gets ICMP "administratively prohibited".
	// Continues in the chain that Map has for the source address; without one in the next rule.
	ToChainOfSource
	ToChainOfDestination // The same for the destination address.
	Drop                 // Dropped without an answer.
)

// MatchKind is the kind of a Match's comparison.
type MatchKind int

// Kinds of matches, and the fields of Match that count.
const (
	// Established matches packets of a connection that was allowed, in both directions, and errors about it.
	Established   MatchKind = iota
	InSource                // The source address is in Set, of kind Addresses or Ranges.
	InDestination           // The destination address is in Set, of kind Addresses or Ranges.
	InPairs                 // Source and destination address are in Set, of kind Pairs.
	InServices              // Destination address, protocol and port are in Set, of kind Services.
	ToPrefix                // The destination address is in Prefix.
	ToPorts                 // The protocol is Protocol, and the destination port is First to Last; from 0: any port.
)

// Match is a condition on packets; Kind determines which of the other fields count. They are zero otherwise.
type Match struct {
	Kind        MatchKind
	Set         string
	Prefix      netip.Prefix
	Protocol    Protocol
	First, Last uint16
}

// Names of base chains, maps and counters.
const (
	mapEgress      = "egress"
	mapIngress     = "ingress"
	counterEgress  = "refused-egress"
	counterIngress = "refused-ingress"
	setSelf        = "self"
	setKnown       = "known-pods"
)

func (e Element) compare(other Element) int {
	return cmp.Or(e.Address.Compare(other.Address), e.Last.Compare(other.Last),
		cmp.Compare(e.Protocol, other.Protocol), cmp.Compare(e.Port, other.Port))
}

func (j Jump) compare(other Jump) int {
	return cmp.Or(j.Address.Compare(other.Address), strings.Compare(j.Chain, other.Chain))
}

func compareChains(a, b Chain) int {
	if (a.Hook == NoHook) != (b.Hook == NoHook) {
		return cmp.Compare(b.Hook, a.Hook) // Those without hook come last.
	}
	return cmp.Or(cmp.Compare(a.Hook, b.Hook), strings.Compare(a.Name, b.Name))
}

func (c Chain) equal(other Chain) bool {
	return c.Name == other.Name && c.Hook == other.Hook && slices.EqualFunc(c.Rules, other.Rules, Rule.equal)
}

func (r Rule) equal(other Rule) bool {
	return r.Counter == other.Counter && r.Verdict == other.Verdict && r.Map == other.Map &&
		slices.Equal(r.Matches, other.Matches)
}

// String returns the name of the protocol as nftables has it.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprintf("%d", uint8(p))
}

// String prints the ruleset much as `nft list table` would.
func (r Ruleset) String() string {
	var out strings.Builder
	for _, s := range r.Sets {
		fmt.Fprintf(&out, "set %s { # %s\n\ttype %s\n", s.Name, s.Comment, s.Kind)
		for _, e := range s.Elements {
			fmt.Fprintf(&out, "\t%s\n", e.text(s.Kind))
		}
		out.WriteString("}\n")
	}
	for _, m := range r.Maps {
		fmt.Fprintf(&out, "map %s {\n\ttype ipv4_addr : verdict\n", m.Name)
		for _, e := range m.Elements {
			fmt.Fprintf(&out, "\t%s : goto %s\n", e.Address, e.Chain)
		}
		out.WriteString("}\n")
	}
	for _, c := range r.Chains {
		fmt.Fprintf(&out, "chain %s {\n", c.Name)
		if c.Hook != NoHook {
			hook, priority := c.Hook.place()
			fmt.Fprintf(&out, "\ttype filter hook %s priority %d; policy accept\n", hook, priority)
		}
		for _, rule := range c.Rules {
			fmt.Fprintf(&out, "\t%s\n", rule)
		}
		out.WriteString("}\n")
	}
	return out.String()
}

// place returns hook and priority of a base chain. Any priority would do, as the hooks are of no use to translations;
// the two chains on the forward hook only need a fixed order.
func (h Hook) place() (hook string, priority int) {
	switch h {
	case ForwardEgress:
		return "forward", 0
	case ForwardIngress:
		return "forward", 10
	case Input:
		return "input", 0
	}
	panic(fmt.Sprintf("chain without hook: %d", h))
}

// String returns the type of the keys as nftables has it.
func (k SetKind) String() string {
	switch k {
	case Ranges:
		return "ipv4_addr; flags interval"
	case Pairs:
		return "ipv4_addr . ipv4_addr"
	case Services:
		return "ipv4_addr . inet_proto . inet_service"
	}
	return "ipv4_addr"
}

func (e Element) text(kind SetKind) string {
	switch kind {
	case Ranges:
		return fmt.Sprintf("%s-%s", e.Address, e.Last)
	case Pairs:
		return fmt.Sprintf("%s . %s", e.Address, e.Last)
	case Services:
		return fmt.Sprintf("%s . %s . %d", e.Address, e.Protocol, e.Port)
	}
	return e.Address.String()
}

// String prints the rule as nftables would.
func (r Rule) String() string {
	var words []string
	for _, m := range r.Matches {
		words = append(words, m.String())
	}
	if r.Counter != "" {
		words = append(words, "counter name "+r.Counter)
	}
	switch r.Verdict {
	case Accept:
		words = append(words, "accept")
	case Reject:
		words = append(words, "reject with icmp admin-prohibited")
	case Drop:
		words = append(words, "drop")
	case ToChainOfSource:
		words = append(words, "ip saddr vmap @"+r.Map)
	case ToChainOfDestination:
		words = append(words, "ip daddr vmap @"+r.Map)
	}
	return strings.Join(words, " ")
}

// String prints the condition as nftables would.
func (m Match) String() string {
	switch m.Kind {
	case InSource:
		return "ip saddr @" + m.Set
	case InDestination:
		return "ip daddr @" + m.Set
	case InPairs:
		return "ip saddr . ip daddr @" + m.Set
	case InServices:
		return "ip daddr . meta l4proto . th dport @" + m.Set
	case ToPrefix:
		return "ip daddr " + m.Prefix.String()
	case ToPorts:
		switch m.First {
		case 0:
			return "meta l4proto " + m.Protocol.String()
		case m.Last:
			return fmt.Sprintf("%s dport %d", m.Protocol, m.First)
		}
		return fmt.Sprintf("%s dport %d-%d", m.Protocol, m.First, m.Last)
	}
	return "ct state established,related"
}
