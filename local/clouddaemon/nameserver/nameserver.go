// Package nameserver answers DNS queries from the cloud's records only; it forwards no queries to other servers.
package nameserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Record is a record set of one name.
type Record struct {
	// Type is A, CNAME or TXT.
	Type       string
	Values     []string
	TTLSeconds int
}

// Zone is the source of the records. Names are in lower case and without the final dot.
type Zone interface {
	// Records returns all record sets of exactly this name; a wildcard is requested as "*.<rest>".
	Records(name string) []Record
	// HasBelow reports whether any record lies below the name.
	HasBelow(name string) bool
}

const (
	// negativeTTL is how long resolvers may cache that a name does not exist, in seconds. It is short, since clients
	// wait for names that are created all the time.
	negativeTTL = 1
	// maxChain bounds how many CNAMEs are followed.
	maxChain = 8
	// maxAttempts bounds the search for a port that is free for both protocols; one in a few hundred tries fails.
	maxAttempts = 10
	// maxUDP is the largest answer by UDP to clients that announce a buffer.
	maxUDP = 4096
)

// Server answers questions.
type Server struct {
	Zone Zone
}

// ListenAndServe serves UDP and TCP on address until ctx ends. ready is called once, when questions are accepted.
func (s *Server) ListenAndServe(ctx context.Context, address string, ready func(addr string)) error {
	packets, streams, err := listen(address)
	if err != nil {
		return fmt.Errorf("open DNS port: %w", err)
	}
	udp := &dns.Server{PacketConn: packets, Handler: s}
	tcp := &dns.Server{Listener: streams, Handler: s, ReadTimeout: 10 * time.Second}
	failed := make(chan error, 2)
	go func() { failed <- udp.ActivateAndServe() }()
	go func() { failed <- tcp.ActivateAndServe() }()
	ready(packets.LocalAddr().String())
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	packets.Close()
	streams.Close()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// listen opens the same port for UDP and TCP. Where any port will do, one that is free for UDP may be taken for TCP.
func listen(address string) (net.PacketConn, net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	for attempt := 1; ; attempt++ {
		packets, err := net.ListenPacket("udp", address)
		if err != nil {
			return nil, nil, err
		}
		streams, err := net.Listen("tcp", packets.LocalAddr().String())
		if err == nil {
			return packets, streams, nil
		}
		packets.Close()
		if port != "0" || attempt == maxAttempts {
			return nil, nil, err
		}
	}
}

// ServeDNS answers one message.
func (s *Server) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	m := s.Answer(r)
	size := dns.MinMsgSize
	if opt := r.IsEdns0(); opt != nil {
		size = min(max(int(opt.UDPSize()), dns.MinMsgSize), maxUDP)
		m.SetEdns0(maxUDP, false)
	}
	if _, isUDP := w.RemoteAddr().(*net.UDPAddr); isUDP {
		m.Truncate(size)
	}
	_ = w.WriteMsg(m) // The client repeats the query.
}

// Answer makes the answer to one message.
func (s *Server) Answer(r *dns.Msg) *dns.Msg {
	m := new(dns.Msg)
	if r.Opcode != dns.OpcodeQuery || len(r.Question) != 1 {
		return m.SetRcode(r, dns.RcodeNotImplemented)
	}
	m.SetReply(r)
	m.Authoritative = true
	m.RecursionAvailable = false
	q := r.Question[0]
	owner := q.Name // Answers repeat the question's spelling.
	for range maxChain {
		name := strings.ToLower(strings.TrimSuffix(owner, "."))
		records, exists := s.find(name)
		if !exists {
			if len(m.Answer) == 0 {
				m.SetRcode(r, dns.RcodeNameError)
				m.Authoritative = true
			}
			break
		}
		matched, alias := resourceRecords(owner, q.Qtype, records)
		m.Answer = append(m.Answer, matched...)
		if alias == "" {
			break
		}
		owner = dns.Fqdn(alias)
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa(q.Name)}
	}
	return m
}

// find returns the records of a name, by wildcard if the name itself has none (RFC 4592).
func (s *Server) find(name string) (records []Record, exists bool) {
	if records = s.Zone.Records(name); len(records) > 0 {
		return records, true
	}
	if s.Zone.HasBelow(name) {
		return nil, true
	}
	for rest := name; ; {
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return nil, false
		}
		if records = s.Zone.Records("*." + parent); len(records) > 0 {
			return records, true
		}
		if len(s.Zone.Records(parent)) > 0 || s.Zone.HasBelow(parent) {
			return nil, false // The closest encloser exists and has no wildcard.
		}
		rest = parent
	}
}

// resourceRecords picks the records that answer a question; alias is the name to continue with, if it is a CNAME.
func resourceRecords(owner string, qtype uint16, records []Record) (out []dns.RR, alias string) {
	for _, r := range records {
		header := dns.RR_Header{
			Name: owner, Rrtype: dns.StringToType[r.Type], Class: dns.ClassINET, Ttl: uint32(r.TTLSeconds),
		}
		switch {
		case header.Rrtype == dns.TypeCNAME:
			out = append(out, &dns.CNAME{Hdr: header, Target: dns.Fqdn(r.Values[0])})
			if qtype != dns.TypeCNAME && qtype != dns.TypeANY {
				alias = r.Values[0]
			}
		case qtype != header.Rrtype && qtype != dns.TypeANY:
		case header.Rrtype == dns.TypeA:
			for _, v := range r.Values {
				out = append(out, &dns.A{Hdr: header, A: net.ParseIP(v).To4()})
			}
		case header.Rrtype == dns.TypeTXT:
			for _, v := range r.Values {
				out = append(out, &dns.TXT{Hdr: header, Txt: []string{v}})
			}
		}
	}
	return out, alias
}

// soa makes a start-of-authority record, which sets how long resolvers may cache a negative answer (RFC 2308).
func soa(name string) dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: negativeTTL},
		Ns:  "ns.cloud.invalid.", Mbox: "admin.cloud.invalid.", Serial: 1, Refresh: 60, Retry: 60, Expire: 60,
		Minttl: negativeTTL,
	}
}
