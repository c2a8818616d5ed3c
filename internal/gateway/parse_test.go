package gateway

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// hello returns the first bytes of a TLS client.
func hello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() { _ = tls.Client(client, config).Handshake(); client.Close() }()
	_ = server.SetDeadline(time.Now().Add(5 * time.Second))
	head := make([]byte, recordHeaderSize)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// fragment splits the message of one record into records of n bytes.
func fragment(record []byte, n int) []byte {
	var out []byte
	for body := record[recordHeaderSize:]; len(body) > 0; {
		size := min(n, len(body))
		out = append(out, record[0], record[1], record[2], byte(size>>8), byte(size))
		out = append(out, body[:size]...)
		body = body[size:]
	}
	return out
}

func TestReadClientHello(t *testing.T) {
	named := hello(t, &tls.Config{ServerName: "api.s.example"})
	for name, tc := range map[string]struct {
		in       []byte
		want     string
		wantErr  bool
		leftOver string
	}{
		"with a name": {in: named, want: "api.s.example"},
		"TLS 1.2": {
			in: hello(t, &tls.Config{ServerName: "api.s.example", MaxVersion: tls.VersionTLS12}), want: "api.s.example",
		},
		"without a name":           {in: hello(t, &tls.Config{InsecureSkipVerify: true}), want: ""},
		"an address is no name":    {in: hello(t, &tls.Config{ServerName: "10.0.0.1"}), want: ""},
		"spread over many records": {in: fragment(named, 50), want: "api.s.example"},
		"one byte in each record":  {in: fragment(named, 1), want: "api.s.example"},
		"bytes after it stay in the connection": {
			in: append(bytes.Clone(named), "early"...), want: "api.s.example", leftOver: "early",
		},
		"cut off":                   {in: named[:len(named)-1], wantErr: true},
		"plain HTTP":                {in: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), wantErr: true},
		"empty record":              {in: []byte{22, 3, 1, 0, 0}, wantErr: true},
		"another handshake message": {in: []byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, wantErr: true},
		"claims to be huge": {
			in: append([]byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, named...), wantErr: true,
		},
		"lengths inside do not fit": {
			in: append([]byte{22, 3, 1, 0, 39, 1, 0, 0, 35}, bytes.Repeat([]byte{0xff}, 35)...), wantErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := bytes.NewReader(tc.in)
			got, raw, err := readClientHello(r)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("readClientHello() = %q, %v; want %q, error %v", got, err, tc.want, tc.wantErr)
			}
			rest, _ := io.ReadAll(r)
			if string(rest) != tc.leftOver && !tc.wantErr {
				t.Errorf("left in the connection: %q, want %q", rest, tc.leftOver)
			}
			if !bytes.Equal(append(raw, rest...), tc.in) {
				t.Error("bytes were lost or changed")
			}
		})
	}
}

// FuzzReadClientHello compares the parser with that of crypto/tls: everything that it accepts results in the same name.
func FuzzReadClientHello(f *testing.F) {
	named := hello(f, &tls.Config{ServerName: "api.s.example", NextProtos: []string{"h2", "http/1.1"}})
	f.Add(named)
	f.Add(fragment(named, 100))
	f.Add(hello(f, &tls.Config{InsecureSkipVerify: true}))
	f.Fuzz(func(t *testing.T, in []byte) {
		name, raw, err := readClientHello(bytes.NewReader(in))
		if !bytes.HasPrefix(in, raw) {
			t.Fatal("raw bytes differ from the input")
		}
		var want *string
		_ = tls.Server(readOnly{bytes.NewReader(in)},
			&tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				want = &h.ServerName
				return nil, errors.New("seen")
			}}).Handshake()
		if want != nil && err == nil && name != *want && strings.TrimSuffix(name, ".") != *want {
			t.Errorf("server name %q, crypto/tls finds %q", name, *want)
		}
	})
}

type readOnly struct{ r io.Reader }

func (c readOnly) Read(b []byte) (int, error)       { return c.r.Read(b) }
func (c readOnly) Write(b []byte) (int, error)      { return len(b), nil }
func (c readOnly) Close() error                     { return nil }
func (c readOnly) LocalAddr() net.Addr              { return nil }
func (c readOnly) RemoteAddr() net.Addr             { return nil }
func (c readOnly) SetDeadline(time.Time) error      { return nil }
func (c readOnly) SetReadDeadline(time.Time) error  { return nil }
func (c readOnly) SetWriteDeadline(time.Time) error { return nil }

func TestReadConnect(t *testing.T) {
	const valid = "outbound|1194||vpn-seed-server.s1.svc.cluster.local"
	for name, tc := range map[string]struct {
		in       string
		ok       bool
		location string
		early    string
		wantErr  bool
	}{
		"valid": {
			in: "CONNECT api.s.example:8132 HTTP/1.1\r\nHost: api.s.example:8132\r\nReversed-VPN: " + valid + "\r\n\r\n",
			ok: true, location: "https://api.s.example/",
		},
		"HTTP/1.0": {
			in: "CONNECT api.s.example:8132 HTTP/1.0\r\nReversed-VPN: " + valid + "\r\n\r\n", ok: true,
			location: "https://api.s.example/",
		},
		"newer header": {
			in: "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nx-gardener-destination: " + valid + "\r\n\r\n", ok: true,
			location: "https://x/",
		},
		"early data": {
			in: "CONNECT x:1 HTTP/1.1\r\nHost: x\r\nReversed-VPN: " + valid + "\r\n\r\n\x16\x03\x01", ok: true,
			location: "https://x/", early: "\x16\x03\x01",
		},
		"no header": {in: "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", location: "https://x/"},
		"invalid header": {
			in: "CONNECT x:1 HTTP/1.1\r\nHost: x\r\nReversed-VPN: 10.0.0.1:443\r\n\r\n", location: "https://x/",
		},
		"two headers": {
			in:       "CONNECT x:1 HTTP/1.1\r\nHost: x\r\nReversed-VPN: " + valid + "\r\nReversed-VPN: " + valid + "\r\n\r\n",
			location: "https://x/",
		},
		"two spellings": {
			in: "CONNECT x:1 HTTP/1.1\r\nHost: x\r\nReversed-VPN: " + valid + "\r\nX-Gardener-Destination: " + valid +
				"\r\n\r\n", location: "https://x/",
		},
		"not CONNECT": {
			in: "GET /a?b=c HTTP/1.1\r\nHost: x:8132\r\nReversed-VPN: " + valid + "\r\n\r\n", location: "https://x/a?b=c",
		},
		"IPv6 host":    {in: "GET / HTTP/1.1\r\nHost: [fd00::1]:8132\r\n\r\n", location: "https://[fd00::1]/"},
		"strange host": {in: "GET / HTTP/1.1\r\nHost: a\"b\r\n\r\n"},
		"no HTTP":      {in: "\x16\x03\x01\x00\x05hello", wantErr: true},
		"too large": {
			in: "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", maxRequestSize) + "\r\n\r\n", wantErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readConnect(strings.NewReader(tc.in))
			if got.ok != tc.ok || got.location != tc.location || string(got.early) != tc.early || (err != nil) != tc.wantErr {
				t.Errorf("readConnect() = %+v, %v; want %+v", got, err, tc)
			}
		})
	}
}

func FuzzReadConnect(f *testing.F) {
	f.Add([]byte("CONNECT x:1 HTTP/1.1\r\nHost: x\r\nReversed-VPN: outbound|1194||vpn-seed-server.s1.svc.cluster.local\r\n\r\n"))
	f.Add([]byte("GET /a HTTP/1.0\r\nHost: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readConnect(bytes.NewReader(in))
		if err != nil {
			return
		}
		if got.ok && (got.destination.Port != 443 && got.destination.Port != 1194 ||
			got.destination.Service.Namespace == "") {
			t.Errorf("accepted %+v", got.destination)
		}
		answer, err := http.ReadResponse(bufioReader(redirect(got.location)), nil)
		if err != nil {
			t.Fatalf("the redirect is not a valid response: %v", err)
		}
		if answer.StatusCode == http.StatusMovedPermanently && !strings.HasPrefix(answer.Header.Get("Location"), "https://") {
			t.Errorf("redirect to %q", answer.Header.Get("Location"))
		}
	})
}

func TestReadProxyHeader(t *testing.T) {
	from, to := &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 4000}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}
	encode := func(h *proxyproto.Header) string {
		b, err := h.Format()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	v2 := encode(proxyproto.HeaderProxyFromAddrs(2, from, to))
	for name, tc := range map[string]struct {
		in, want, early string
		wantErr         bool
	}{
		"version 2": {in: v2 + "TLS", want: "10.0.0.1:443", early: "TLS"},
		"version 1": {in: encode(proxyproto.HeaderProxyFromAddrs(1, from, to)), wantErr: true},
		"UDP": {
			in: encode(proxyproto.HeaderProxyFromAddrs(2, &net.UDPAddr{IP: from.IP, Port: 1},
				&net.UDPAddr{IP: to.IP, Port: 443})), wantErr: true,
		},
		"LOCAL": {in: encode(&proxyproto.Header{
			Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC,
		}), wantErr: true},
		"none":    {in: "\x16\x03\x01\x00\x05hello", wantErr: true},
		"cut off": {in: v2[:len(v2)-1], wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, early, err := readProxyHeader(strings.NewReader(tc.in))
			if (err != nil) != tc.wantErr {
				t.Fatalf("error %v, want one: %v", err, tc.wantErr)
			}
			if err == nil && (got.String() != tc.want || string(early) != tc.early) {
				t.Errorf("readProxyHeader() = %s, %q; want %s, %q", got, early, tc.want, tc.early)
			}
		})
	}
}

func FuzzReadProxyHeader(f *testing.F) {
	b, _ := proxyproto.HeaderProxyFromAddrs(2, &net.TCPAddr{IP: net.IPv4(10, 1, 0, 1), Port: 1},
		&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}).Format()
	f.Add(b)
	f.Add([]byte("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		to, _, err := readProxyHeader(bytes.NewReader(in))
		if err == nil && !to.IsValid() {
			t.Error("accepted without a destination")
		}
	})
}
