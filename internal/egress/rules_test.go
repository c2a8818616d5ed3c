package egress

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func outside(t testing.TB, networks, domains []string) *Rules {
	t.Helper()
	r, err := Outside(prefixes(networks...), domains)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheck(t *testing.T) {
	out := outside(t, []string{"10.0.0.0/8", "fd12::/16", "::ffff:172.16.0.0/108"}, nil)
	in := Inside(nil, nil)
	limited := Inside(prefixes("10.250.0.0/16", "fd99::/16"), prefixes("0.0.0.0/0", "::/0"))
	for _, tc := range []struct {
		addr                      string
		outside, inside, withinIt bool
	}{
		{"93.184.216.34", true, true, false},
		{"2606:2800:220:1::1", true, true, false},
		{"192.168.1.1", true, true, false},
		{"10.250.3.4", false, true, true},
		{"::ffff:10.250.3.4", false, true, true},
		{"172.16.0.1", false, true, false},
		{"172.31.255.255", false, true, false},
		{"172.32.0.1", true, true, false},
		{"fd12::1", false, true, false},
		{"fd99::1", true, true, true},
		{"0.0.0.0", false, false, false},
		{"0.1.2.3", false, false, false},
		{"127.0.0.1", false, false, false},
		{"127.255.255.254", false, false, false},
		{"::ffff:127.0.0.1", false, false, false},
		{"169.254.169.254", false, false, false},
		{"::ffff:169.254.169.254", false, false, false},
		{"169.254.170.2", false, false, false},
		{"100.100.100.200", false, false, false},
		{"168.63.129.16", false, false, false},
		{"192.0.0.192", false, false, false},
		{"fd00:ec2::254", false, false, false},
		{"fd20:ce::254", false, false, false},
		{"224.0.0.1", false, false, false},
		{"239.255.255.255", false, false, false},
		{"255.255.255.255", false, false, false},
		{"240.1.2.3", false, true, false},
		{"192.0.0.8", false, true, false},
		{"::", false, false, false},
		{"::1", false, false, false},
		{"fe80::1", false, false, false},
		{"febf::1", false, false, false},
		{"fec0::1", false, false, false},
		{"ff02::1", false, false, false},
		{"64:ff9b::7f00:1", false, true, false},
		{"64:ff9b::a9fe:a9fe", false, true, false},
		{"64:ff9b:1::a00:1", false, true, false},
		{"2002:7f00:1::", false, true, false},
		{"2001:0:4136:e378:8000:63bf:3fff:fdd2", false, true, false},
		{"2001:4860:4860::8888", true, true, false},
		{"::127.0.0.1", false, true, false},
		{"::ffff:0:127.0.0.1", false, true, false},
	} {
		addr := netip.MustParseAddr(tc.addr)
		for name, check := range map[string]struct {
			rules *Rules
			want  bool
		}{"outside": {out, tc.outside}, "inside": {in, tc.inside}, "inside networks": {limited, tc.withinIt}} {
			err := check.rules.Check(addr)
			if (err == nil) != check.want {
				t.Errorf("%s: Check(%s) = %v, want allowed %t", name, tc.addr, err, check.want)
			}
			if err != nil && ResultOf(err) != RefusedAddress {
				t.Errorf("%s: Check(%s): result %q", name, tc.addr, ResultOf(err))
			}
		}
	}
	for _, addr := range []netip.Addr{{}, netip.MustParseAddr("2606::1").WithZone("eth0")} {
		if out.Check(addr) == nil || in.Check(addr) == nil {
			t.Errorf("%v is allowed", addr)
		}
	}
}

func TestCheckName(t *testing.T) {
	out := outside(t, nil, []string{"corp.example", ".Internal."})
	in := Inside(nil, nil)
	for _, tc := range []struct{ name, outside, inside string }{ // The name to resolve, "" if denied.
		{"hook.example.com", "hook.example.com.", "hook.example.com"},
		{"Hook.Example.COM.", "hook.example.com.", "hook.example.com"},
		{"_x.a-b.example.com", "_x.a-b.example.com.", "_x.a-b.example.com"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example.", "xn--bcher-kva.example"},
		{"1.example.com", "1.example.com.", "1.example.com"},
		{"svc.example.com", "svc.example.com.", "svc.example.com"},
		{"notcorp.example", "notcorp.example.", "notcorp.example"},
		{"node-1", "", "node-1"},
		{"kubernetes", "", "kubernetes"},
		{"kube-apiserver.shoot--a--b.svc", "", "kube-apiserver.shoot--a--b.svc"},
		{"kube-apiserver.shoot--a--b.svc.", "", "kube-apiserver.shoot--a--b.svc"},
		{"kube-apiserver.shoot--a--b.SVC", "", "kube-apiserver.shoot--a--b.svc"},
		{"kubernetes.default.svc.cluster.local", "", "kubernetes.default.svc.cluster.local"},
		{"cluster.local", "", "cluster.local"},
		{"10-0-0-1.default.pod.Cluster.Local.", "", "10-0-0-1.default.pod.cluster.local"},
		{"corp.example", "", "corp.example"},
		{"a.CORP.example.", "", "a.corp.example"},
		{"metadata.google.internal", "", "metadata.google.internal"},
		{"localhost", "", ""},
		{"a.localhost", "", ""},
		{"LOCALHOST.", "", ""},
		{"", "", ""},
		{".", "", ""},
		{"..", "", ""},
		{"a..example.com", "", ""},
		{"a.example.com..", "", ""},
		{".example.com", "", ""},
		{"-a.example.com", "", ""},
		{"a-.example.com", "", ""},
		{"a b.example.com", "", ""},
		{"a%2e.example.com", "", ""},
		{"a\x00.example.com", "", ""},
		{"a@example.com", "", ""},
		{"bücher.example", "", ""},
		{"example\u3002com", "", ""},
		{strings.Repeat("a", 64) + ".example.com", "", ""},
		{strings.Repeat("a.", 126) + "com", "", ""},
		{"127.1", "", ""},
		{"127.0.0.1.", "", ""},
		{"0177.0.0.1", "", ""},
		{"010.0.0.1", "", ""},
		{"2130706433", "", ""},
		{"0x7f.1", "", ""},
		{"0x7f000001", "", ""},
		{"0X7F.0.0.0x1", "", ""},
		{"a.0x", "", ""},
		{"1.2.3.4.5", "", ""},
		{"[::1]", "", ""},
		{"fe80::1%eth0", "", ""},
	} {
		for name, check := range map[string]struct {
			rules *Rules
			want  string
		}{"outside": {out, tc.outside}, "inside": {in, tc.inside}} {
			got, err := check.rules.CheckName(tc.name)
			if got != check.want || (err != nil) != (check.want == "") {
				t.Errorf("%s: CheckName(%q) = %q, %v; want %q", name, tc.name, got, err, check.want)
			}
			if err != nil && ResultOf(err) != RefusedName {
				t.Errorf("%s: CheckName(%q): result %q", name, tc.name, ResultOf(err))
			}
		}
	}
}

func TestOutsideRefusesWrongDomains(t *testing.T) {
	for _, domain := range []string{"", ".", "a b", "10.0.0.1"} {
		if _, err := Outside(nil, []string{domain}); err == nil {
			t.Errorf("domain %q was accepted", domain)
		}
	}
	if len(clusterDomains) != 3 {
		t.Errorf("the domains of clusters have changed: %q", clusterDomains)
	}
}

// lenient parses addresses as inet_aton of the C library does: one to four numbers in decimal, octal or hexadecimal
// form.
func lenient(text string) bool {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return false
	}
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 0, 32); err != nil {
			return false
		}
	}
	return true
}

// FuzzRules: every accepted target is either an ordinary name or an address outside of the denied ranges, and a second
// check gives the same result.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{"hook.example.com", "10.0.0.1", "::ffff:127.0.0.1", "0x7f.1", "2130706433", "a.svc.",
		"::1%lo",
		"64:ff9b::7f00:1", "例え.jp", "127.0.0.1.", "a.cluster.local", "017700000001", "A.B"} {
		f.Add(seed)
	}
	denied := prefixes("10.0.0.0/8", "fd12::/16")
	rules := outside(f, []string{"10.0.0.0/8", "fd12::/16"}, []string{"corp.example"})
	f.Fuzz(func(t *testing.T, host string) {
		if addr, err := netip.ParseAddr(host); err == nil {
			if rules.Check(addr) != nil {
				return
			}
			a := addr.Unmap()
			if !a.IsGlobalUnicast() || a.IsLoopback() || a.Zone() != "" {
				t.Errorf("%s is allowed", host)
			}
			for _, p := range denied {
				if p.Contains(a) {
					t.Errorf("%s of %s is allowed", host, p)
				}
			}
			return
		}
		name, err := rules.CheckName(host)
		if err != nil {
			return
		}
		if lenient(strings.TrimSuffix(name, ".")) {
			t.Errorf("%q is accepted as the name %q", host, name)
		}
		if _, err := netip.ParseAddr(strings.TrimSuffix(name, ".")); err == nil {
			t.Errorf("%q is accepted as a name, but is an address", host)
		}
		if again, err := rules.CheckName(name); err != nil || again != name {
			t.Errorf("CheckName(%q) = %q, %v", name, again, err)
		}
		for _, d := range []string{".svc.", ".cluster.local.", ".localhost.", ".corp.example."} {
			if strings.HasSuffix("."+name, d) {
				t.Errorf("%q is accepted", host)
			}
		}
		if !strings.HasSuffix(name, ".") || strings.Count(name, ".") < 2 || len(name) > maxNameLength+1 {
			t.Errorf("%q becomes %q", host, name)
		}
	})
}
