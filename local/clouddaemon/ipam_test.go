package clouddaemon

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "hortus.dev/hortus/local/cloud"
)

func TestNextAddress(t *testing.T) {
	small := netip.MustParsePrefix("10.0.0.0/29")
	for name, tc := range map[string]struct {
		after string
		used  []string
		want  string
	}{
		"the first one":                {want: "10.0.0.2"},
		"continues after the last one": {after: "10.0.0.3", want: "10.0.0.4"},
		"skips what is used":           {after: "10.0.0.3", used: []string{"10.0.0.4"}, want: "10.0.0.5"},
		"begins again after the end":   {after: "10.0.0.6", want: "10.0.0.2"},
		"ignores an address outside":   {after: "10.1.0.4", want: "10.0.0.2"},
		"reports that all are used":    {used: []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}},
	} {
		t.Run(name, func(t *testing.T) {
			used := map[string]bool{}
			for _, a := range tc.used {
				used[a] = true
			}
			if got, _ := nextAddress(small, 2, 6, tc.after, used); got != tc.want {
				t.Errorf("nextAddress() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestInstanceRangesStayInside(t *testing.T) {
	for bits := minNetworkBits; bits <= maxNetworkBits; bits++ {
		p := netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits)
		first, last := instanceRange(p)
		if first <= gatewayOffset || first > last || !p.Contains(addressAt(p, last+1)) || p.Contains(addressAt(p, last+2)) {
			t.Errorf("range of /%d is %d-%d, want it between gateway and broadcast address", bits, first, last)
		}
	}
}

func TestPickNetworkCIDR(t *testing.T) {
	var taken []netip.Prefix
	var got []string
	for range 3 {
		p, err := pickNetworkCIDR(append(taken, netip.MustParsePrefix("10.176.4.0/24")))
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, p)
		got = append(got, p.String())
	}
	if diff := cmp.Diff([]string{"10.176.0.0/22", "10.176.8.0/22", "10.176.12.0/22"}, got); diff != "" {
		t.Errorf("CIDRs mismatch (-want +got):\n%s", diff)
	}
	_, err := pickNetworkCIDR([]netip.Prefix{autoRange})
	if api.CodeOf(err) != api.CodeDepleted {
		t.Errorf("with all addresses used: %v, want code %s", err, api.CodeDepleted)
	}
}

func TestParseNetworkCIDR(t *testing.T) {
	for cidr, ok := range map[string]bool{
		"10.1.0.0/24": true, "10.0.0.0/8": true, "10.1.0.0/28": true,
		"10.1.0.1/24": false, "10.1.0.0/29": false, "10.0.0.0/7": false, "fd00::/64": false, "ten": false,
	} {
		if _, err := parseNetworkCIDR(cidr); (err == nil) != ok {
			t.Errorf("parseNetworkCIDR(%q) = %v, want accepted = %v", cidr, err, ok)
		}
	}
}

func TestCheckQuota(t *testing.T) {
	limits := api.Limits{Instances: 2, CPU: 4}
	for name, tc := range map[string]struct {
		used, more api.Limits
		exceeded   bool
	}{
		"quota for exactly one more": {
			used: api.Limits{Instances: 1, CPU: 2}, more: api.Limits{Instances: 1, CPU: 2},
		},
		"one too many": {
			used: api.Limits{Instances: 2}, more: api.Limits{Instances: 1}, exceeded: true,
		},
		"cores are exceeded before instances": {
			used: api.Limits{Instances: 1, CPU: 3}, more: api.Limits{Instances: 1, CPU: 2}, exceeded: true,
		},
		"no limit on memory":                       {more: api.Limits{MemoryBytes: 1 << 50}},
		"a request for nothing is always accepted": {used: api.Limits{Instances: 9}, more: api.Limits{MemoryBytes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkQuota("a", limits, tc.used, tc.more)
			if got := api.CodeOf(err) == api.CodeQuotaExceeded; got != tc.exceeded {
				t.Errorf("checkQuota() = %v, want exceeded = %v", err, tc.exceeded)
			}
		})
	}
}

func TestSelectEvents(t *testing.T) {
	events := []api.Event{{Revision: 8}, {Revision: 9}, {Revision: 10}}
	for since, want := range map[int64]string{
		0:  "[]",
		5:  "reset",
		6:  "reset",
		7:  "[8 9 10]",
		9:  "[10]",
		10: "[]",
		11: "reset",
	} {
		list := selectEvents(events, 10, since)
		got := "reset"
		if !list.Reset {
			var revisions []int64
			for _, e := range list.Events {
				revisions = append(revisions, e.Revision)
			}
			got = fmt.Sprint(revisions)
		}
		if got != want || list.Revision != 10 {
			t.Errorf("selectEvents(since %d) = %s at %d, want %s at 10", since, got, list.Revision, want)
		}
	}
	if list := selectEvents(nil, 10, 9); !list.Reset {
		t.Error("after a restart there are no events, but no reset is requested")
	}
}

func TestMatches(t *testing.T) {
	for name, tc := range map[string]struct {
		fault api.Fault
		want  bool
	}{
		"same operation":     {fault: api.Fault{Operation: "CreateInstance"}, want: true},
		"all operations":     {fault: api.Fault{Operation: "*"}, want: true},
		"other operation":    {fault: api.Fault{Operation: "DeleteInstance"}},
		"other account":      {fault: api.Fault{Operation: "*", Account: "bob"}},
		"a zone it names":    {fault: api.Fault{Operation: "*", Account: "alice", Target: "local-a"}, want: true},
		"a zone it does not": {fault: api.Fault{Operation: "*", Target: "local-b"}},
		"spent":              {fault: api.Fault{Operation: "*", Count: 2, Struck: 2}},
		"not yet spent":      {fault: api.Fault{Operation: "*", Count: 2, Struck: 1}, want: true},
		"over":               {fault: api.Fault{Operation: "*", Until: noon}},
		"not yet over":       {fault: api.Fault{Operation: "*", Until: noon.Add(1)}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := call{operation: "CreateInstance", account: "alice", targets: []string{"m", "local-a"}}
			if got := matches(tc.fault, c, noon); got != tc.want {
				t.Errorf("matches() = %v, want %v", got, tc.want)
			}
		})
	}
}
