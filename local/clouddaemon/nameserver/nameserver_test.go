package nameserver

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

type records map[string][]Record

func (r records) Records(name string) []Record { return r[name] }

func (r records) HasBelow(name string) bool {
	for n := range r {
		if strings.HasSuffix(n, "."+name) {
			return true
		}
	}
	return false
}

func a(values ...string) []Record { return []Record{{Type: "A", Values: values, TTLSeconds: 5}} }

func TestAnswer(t *testing.T) {
	s := Server{Zone: records{
		"api.shoot.test":   a("198.18.8.1", "198.18.8.2"),
		"*.ingress.test":   a("198.18.8.3"),
		"own.ingress.test": {{Type: "TXT", Values: []string{"mine"}, TTLSeconds: 60}},
		"www.test":         {{Type: "CNAME", Values: []string{"api.shoot.test"}, TTLSeconds: 5}},
		"out.test":         {{Type: "CNAME", Values: []string{"elsewhere.example"}, TTLSeconds: 5}},
		"loop.test":        {{Type: "CNAME", Values: []string{"loop.test"}, TTLSeconds: 5}},
	}}
	for _, tc := range []struct {
		name  string
		qtype uint16
		rcode int
		want  []string
	}{
		{"api.shoot.test.", dns.TypeA, dns.RcodeSuccess,
			[]string{"api.shoot.test. 5 A 198.18.8.1", "api.shoot.test. 5 A 198.18.8.2"}},
		{"API.Shoot.TEST.", dns.TypeA, dns.RcodeSuccess,
			[]string{"API.Shoot.TEST. 5 A 198.18.8.1", "API.Shoot.TEST. 5 A 198.18.8.2"}},
		{"api.shoot.test.", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"shoot.test.", dns.TypeA, dns.RcodeSuccess, nil}, // No record of this name, but one below.
		{"nothing.test.", dns.TypeA, dns.RcodeNameError, nil},
		{"below.api.shoot.test.", dns.TypeA, dns.RcodeNameError, nil},
		{"x.ingress.test.", dns.TypeA, dns.RcodeSuccess, []string{"x.ingress.test. 5 A 198.18.8.3"}},
		{"x.y.ingress.test.", dns.TypeA, dns.RcodeSuccess, []string{"x.y.ingress.test. 5 A 198.18.8.3"}},
		{"own.ingress.test.", dns.TypeA, dns.RcodeSuccess, nil},
		{"x.own.ingress.test.", dns.TypeA, dns.RcodeNameError, nil}, // The closest name has no wildcard.
		{"own.ingress.test.", dns.TypeTXT, dns.RcodeSuccess, []string{`own.ingress.test. 60 TXT "mine"`}},
		{"www.test.", dns.TypeA, dns.RcodeSuccess,
			[]string{"www.test. 5 CNAME api.shoot.test.", "api.shoot.test. 5 A 198.18.8.1", "api.shoot.test. 5 A 198.18.8.2"}},
		{"www.test.", dns.TypeCNAME, dns.RcodeSuccess, []string{"www.test. 5 CNAME api.shoot.test."}},
		{"out.test.", dns.TypeA, dns.RcodeSuccess, []string{"out.test. 5 CNAME elsewhere.example."}},
	} {
		t.Run(fmt.Sprint(tc.name, dns.TypeToString[tc.qtype]), func(t *testing.T) {
			m := s.Answer(new(dns.Msg).SetQuestion(tc.name, tc.qtype))
			var got []string
			for _, rr := range m.Answer {
				got = append(got, strings.Replace(strings.Join(strings.Fields(rr.String()), " "), " IN ", " ", 1))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer mismatch (-want +got):\n%s", diff)
			}
			if m.Rcode != tc.rcode || !m.Authoritative {
				t.Errorf("code = %s, authoritative = %v, want %s from the authority", dns.RcodeToString[m.Rcode], m.Authoritative,
					dns.RcodeToString[tc.rcode])
			}
			if len(m.Answer) == 0 && len(m.Ns) != 1 {
				t.Error("a negative answer needs a SOA record with the time for which it may be cached")
			}
		})
	}
	if n := len(s.Answer(new(dns.Msg).SetQuestion("loop.test.", dns.TypeA)).Answer); n != maxChain {
		t.Errorf("a loop of aliases is followed %d times, want %d", n, maxChain)
	}
}

func TestServesUDPAndTCP(t *testing.T) {
	s := Server{Zone: records{"a.test": a("1.2.3.4")}}
	ready := make(chan string, 1)
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- s.ListenAndServe(ctx, "127.0.0.1:0", func(a string) { ready <- a }) }()
	address := <-ready
	for _, network := range []string{"udp", "tcp"} {
		m, _, err := (&dns.Client{Net: network}).Exchange(new(dns.Msg).SetQuestion("a.test.", dns.TypeA), address)
		if err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		if got := m.Answer[0].(*dns.A).A; !got.Equal(net.IPv4(1, 2, 3, 4)) {
			t.Errorf("%s: answer = %v", network, got)
		}
	}
}
