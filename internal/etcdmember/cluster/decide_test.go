package cluster

import (
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	silent := []Peer{{Name: "b"}, {Name: "c"}}
	empty := []Peer{{Name: "b", Reached: true}, {Name: "c", Reached: true}}
	members := func(names ...string) []Member {
		var list []Member
		for i, n := range names {
			list = append(list, Member{ID: uint64(i + 1), Name: n, PeerURL: "https://" + n})
		}
		return list
	}
	for name, tc := range map[string]struct {
		facts   Facts
		want    Action
		reason  string
		remove  uint64
		initial string
	}{
		"with data": {
			facts: Facts{HasData: true, Peers: silent}, want: Start, initial: "a=https://a",
		},
		"the only one":    {facts: Facts{First: true}, want: Begin, initial: "a=https://a"},
		"nobody has data": {facts: Facts{First: true, Peers: empty}, want: Begin},
		"no member has data, but it is not first": {facts: Facts{Peers: empty}, want: Wait, reason: "has not begun"},
		"the others are silent": {
			facts: Facts{First: true, Peers: silent}, want: Wait, reason: "b, c may have some",
		},
		"one is silent": {facts: Facts{
			First: true, Peers: []Peer{{Name: "b", Reached: true}, {Name: "c"}},
		}, want: Wait, reason: "c may have some"},
		"broken data, and the others do not answer": {facts: Facts{First: true, Broken: true, Peers: silent}, want: Wait},
		"the others have data and no quorum": {facts: Facts{
			First: true, Peers: []Peer{{Name: "b", Reached: true, HasData: true}, {Name: "c", Reached: true}},
		}, want: Wait, reason: "b has some"},
		"it has never been a member": {
			facts: Facts{Members: members("b")}, want: Join, initial: "a=https://a,b=https://b",
		},
		"it has lost its volume": {
			facts: Facts{First: true, Members: members("a", "b", "c")}, want: Join, remove: 1,
			initial: "a=https://a,b=https://b,c=https://c",
		},
		"its data is broken": {facts: Facts{
			Broken: true, Members: members("b", "a", "c"),
		}, want: Join, remove: 2},
		"it was removed while it was away": {facts: Facts{HasData: true, Members: members("b", "c")}, want: Join},
		"it did not finish joining": {facts: Facts{
			Members: append(members("b"), Member{ID: 9, PeerURL: "https://a", Learner: true}),
		}, want: Join, remove: 9},
		"another member is joining": {facts: Facts{
			Members: append(members("b"), Member{ID: 9, PeerURL: "https://c", Learner: true}),
		}, want: Wait, reason: "another member is joining at https://c"},
		"another member is catching up": {facts: Facts{
			Members: append(members("b"), Member{ID: 9, Name: "c", PeerURL: "https://c", Learner: true}),
		}, want: Wait, reason: "c is catching up"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Name, tc.facts.PeerURL = "a", "https://a"
			got := Decide(tc.facts)
			if got.Action != tc.want || !strings.Contains(got.Reason, tc.reason) || got.Remove != tc.remove ||
				tc.initial != "" && got.Initial != tc.initial {
				t.Errorf("Decide() = %+v, want %s, %q, remove %d, %s", got, tc.want, tc.reason, tc.remove, tc.initial)
			}
		})
	}
}
