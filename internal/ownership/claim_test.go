package ownership

import "testing"

func TestClaimChanges(t *testing.T) {
	settled := Claim{Holder: "a", Epoch: 3, Settled: true}
	called := Claim{Holder: "a", Epoch: 3, Settled: true, Called: "b"}
	prepared := Claim{Holder: "a", Epoch: 3, Settled: true, Called: "b", Prepared: "b"}
	for name, tc := range map[string]struct{ got, want Claim }{
		"the first holder":                      {Claim{}.Take("a"), Claim{Holder: "a", Epoch: 1}},
		"the holder keeps its epoch":            {settled.Take("a"), settled},
		"another holder begins a new epoch":     {prepared.Take("b"), Claim{Holder: "b", Epoch: 4}},
		"a destination is called":               {settled.Call("b"), called},
		"a second call changes nothing":         {prepared.Call("b"), prepared},
		"a call for somebody else starts over":  {prepared.Call("c"), Claim{Holder: "a", Epoch: 3, Settled: true, Called: "c"}},
		"the destination answers":               {called.Answer("b"), prepared},
		"an answer that nobody asked for":       {settled.Answer("b"), settled},
		"an answer to a call that is over":      {called.Answer("c"), called},
		"called off":                            {prepared.CalledOff(), settled},
		"only the holder settles":               {Claim{Holder: "a", Epoch: 2}.Settle("b"), Claim{Holder: "a", Epoch: 2}},
		"the holder has all it needs":           {Claim{Holder: "a", Epoch: 2}.Settle("a"), Claim{Holder: "a", Epoch: 2, Settled: true}},
		"who takes over has nothing at first":   {settled.Take("b"), Claim{Holder: "b", Epoch: 4}},
		"taking back is a change of the holder": {settled.Take("b").Take("a"), Claim{Holder: "a", Epoch: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %+v, want %+v", tc.got, tc.want)
			}
		})
	}
}

func TestSuperseded(t *testing.T) {
	for name, tc := range map[string]struct {
		claim Claim
		want  bool
	}{
		"nobody has taken it":          {Claim{}, false},
		"the holder":                   {Claim{Holder: "a", Epoch: 1}, false},
		"another seed":                 {Claim{Holder: "b", Epoch: 2}, true},
		"called to take over":          {Claim{Holder: "b", Epoch: 2, Called: "a"}, false},
		"another one is called":        {Claim{Holder: "b", Epoch: 2, Called: "c"}, true},
		"the holder that calls others": {Claim{Holder: "a", Epoch: 2, Called: "c"}, false},
	} {
		if got := tc.claim.Superseded("a"); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
