package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// network simulates connections: it records names and addresses, and has the responses.
type network struct {
	answers  map[string][]string // By name; a "|" separates a second list of addresses.
	errs     map[string]error    // By address and port.
	resolved []string
	dialled  []string
}

func (n *network) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	n.resolved = append(n.resolved, name)
	answers, ok := n.answers[name]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, Server: "10.0.0.10:53", IsNotFound: true}
	}
	var out []netip.Addr
	for i, a := range answers {
		if a == "|" {
			n.answers[name] = answers[i+1:]
			break
		}
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (n *network) dial(_ context.Context, network, address string) (net.Conn, error) {
	n.dialled = append(n.dialled, network+" "+address)
	if err := n.errs[address]; err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	c, peer := net.Pipe()
	return c, peer.Close()
}

func TestDial(t *testing.T) {
	one := []string{"tcp 198.51.100.7:443"}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("198.51.100.%d", i))
	}
	for name, tc := range map[string]struct {
		target   string
		answers  []string
		errs     map[string]error
		result   Result
		expired  bool
		resolved int
		dialled  []string
	}{
		"an address": {target: "198.51.100.7:443", result: Allowed, dialled: one},
		"an address of IPv6": {
			target: "[2606::7]:443", result: Allowed, dialled: []string{"tcp [2606::7]:443"},
		},
		"a mapped address":                          {target: "[::ffff:198.51.100.7]:443", result: Allowed, dialled: one},
		"a denied address":                          {target: "10.0.0.1:443", result: RefusedAddress},
		"a mapped denied address":                   {target: "[::ffff:10.0.0.1]:443", result: RefusedAddress},
		"an address with a zone":                    {target: "[fe80::1%eth0]:443", result: RefusedAddress},
		"an unusual spelling of a loopback address": {target: "127.1:443", result: RefusedName},
		"a number":                                  {target: "2130706433:443", result: RefusedName},
		"no port":                                   {target: "198.51.100.7", result: RefusedName},
		"port 0":                                    {target: "198.51.100.7:0", result: RefusedName},
		"a port beyond all ports":                   {target: "198.51.100.7:65536", result: RefusedName},
		"the name of a port":                        {target: "198.51.100.7:https", result: RefusedName},
		"a port with a sign":                        {target: "198.51.100.7:+443", result: RefusedName},
		"an empty host":                             {target: ":443", result: RefusedName},
		"a service of the seed":                     {target: "kube-apiserver.shoot--a--b.svc:443", result: RefusedName},
		"an exempt service of the seed": {
			target: "manager:443", result: Allowed, dialled: []string{"tcp manager:443"},
		},
		"a missing exempt service": {
			target: "manager:443", errs: map[string]error{"manager:443": syscall.ECONNREFUSED}, result: Failed,
			dialled: []string{"tcp manager:443"},
		},
		"another port of an exempt service":  {target: "manager:8081", result: RefusedName},
		"a longer name of an exempt service": {target: "manager.shoot--a--b.svc:443", result: RefusedName},
		"a name": {
			target: "hook.example:443", answers: []string{"198.51.100.7"}, result: Allowed, resolved: 1, dialled: one,
		},
		"a name of a denied address": {
			target: "hook.example:443", answers: []string{"10.0.0.1", "::ffff:127.0.0.1"}, result: RefusedAddress, resolved: 1,
		},
		"a name of denied addresses and another": {
			target: "hook.example:443", answers: []string{
				"64:ff9b::a00:1", "10.0.0.1", "198.51.100.7",
			}, result: Allowed, resolved: 1,
			dialled: []string{"tcp 198.51.100.7:443"},
		},
		"the second address answers": {
			target: "hook.example:443", answers: []string{"198.51.100.9", "198.51.100.7"}, result: Allowed, resolved: 1,
			errs:    map[string]error{"198.51.100.9:443": syscall.ECONNREFUSED},
			dialled: []string{"tcp 198.51.100.9:443", "tcp 198.51.100.7:443"},
		},
		"a name without addresses": {target: "hook.example:443", answers: []string{}, result: Unresolved, resolved: 1},
		"an unknown name":          {target: "other.example:443", result: Unresolved, resolved: 1},
		"nothing listens": {
			target: "198.51.100.7:443", errs: map[string]error{"198.51.100.7:443": syscall.ECONNREFUSED}, result: Failed,
			dialled: []string{"tcp 198.51.100.7:443"},
		},
		"nothing answers": {
			target: "198.51.100.7:443", result: Failed, expired: true,
			errs:    map[string]error{"198.51.100.7:443": context.DeadlineExceeded},
			dialled: one,
		},
		"a hundred addresses that do not answer": {
			target: "hook.example:443", answers: many, result: Failed, resolved: 1,
			errs: func() map[string]error {
				m := map[string]error{}
				for _, a := range many {
					m[a+":443"] = syscall.EHOSTUNREACH
				}
				return m
			}(),
			dialled: func() []string {
				var d []string
				for _, a := range many[:maxAddresses] {
					d = append(d, "tcp "+a+":443")
				}
				return d
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &network{answers: map[string][]string{}, errs: tc.errs}
			if tc.answers != nil {
				n.answers["hook.example."] = tc.answers
			}
			d := &Dialer{Rules: outside(t, []string{"10.0.0.0/8"}, nil), Resolve: n.resolve, Dial: n.dial,
				Exempt: func(target string) bool { return target == "manager:443" }}
			conn, err := d.DialContext(t.Context(), tc.target)
			if conn != nil {
				defer conn.Close()
			}
			if ResultOf(err) != tc.result || (conn != nil) != (tc.result == Allowed) {
				t.Errorf("DialContext() = %v, %v; want %s", conn, err, tc.result)
			}
			if diff := cmp.Diff(tc.dialled, n.dialled); diff != "" {
				t.Errorf("dialled (-want +got):\n%s", diff)
			}
			if len(n.resolved) != tc.resolved {
				t.Errorf("resolved %q, want %d names", n.resolved, tc.resolved)
			}
			var e *Error
			if errors.As(err, &e) {
				if e.Timeout() != tc.expired {
					t.Errorf("Timeout() = %t", e.Timeout())
				}
				for _, internal := range []string{"10.0.0", "198.51", "127.0", "dial"} {
					if strings.Contains(e.Reason, internal) {
						t.Errorf("the reason %q has %q", e.Reason, internal)
					}
				}
			}
		})
	}
}

// A name whose addresses change after the check is dialled at the checked address, and is resolved only once.
func TestRebindingChangesNothing(t *testing.T) {
	n := &network{answers: map[string][]string{"hook.example.": {"198.51.100.7", "|", "169.254.169.254"}}}
	d := &Dialer{Rules: outside(t, nil, nil), Resolve: n.resolve, Dial: n.dial}
	conn, err := d.DialContext(t.Context(), "hook.example:80")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := d.DialContext(t.Context(), "hook.example:80"); ResultOf(err) != RefusedAddress {
		t.Errorf("after the addresses have changed: %v", err)
	}
	if diff := cmp.Diff([]string{"tcp 198.51.100.7:80"}, n.dialled); diff != "" {
		t.Errorf("dialled (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hook.example.", "hook.example."}, n.resolved); diff != "" {
		t.Errorf("resolved (-want +got):\n%s", diff)
	}
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := &network{answers: map[string][]string{"hook.example.": {"198.51.100.7", "198.51.100.8"}}}
	d := &Dialer{Rules: outside(t, nil, nil), Resolve: n.resolve,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			cancel()
			return nil, context.Canceled
		}}
	if _, err := d.DialContext(ctx, "hook.example:80"); ResultOf(err) != Failed || !errors.Is(err, context.Canceled) {
		t.Errorf("DialContext() = %v", err)
	}
}

// The real resolver and dialer, as far as they need no network.
func TestRealDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := (&Dialer{Rules: Inside(nil, nil)}).DialContext(t.Context(),
		l.Addr().String()); ResultOf(err) != RefusedAddress {
		t.Errorf("a loopback address: %v", err)
	}
	conn, err := (&Dialer{Rules: &Rules{}}).DialContext(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	l.Close()
	if _, err := (&Dialer{Rules: &Rules{}}).DialContext(t.Context(), l.Addr().String()); ResultOf(err) != Failed {
		t.Errorf("nothing listens: %v", err)
	}
}
