package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"hortus.dev/hortus/internal/egress"
	"hortus.dev/hortus/internal/tunnel/relay"
)

// proxy serves the CONNECT requests that come with one egress selector of the API server.
type proxy struct {
	// dial opens the requested connection.
	dial func(ctx context.Context, target string) (net.Conn, error)
	// answer converts a failed dial to an HTTP status and a text for the client of the API server.
	answer func(error) (code int, text string)
	// done counts an answered request; err is the error of dial, or errLimited.
	done func(code int, err error)
	// opened and closed frame a connection.
	opened func()
	closed func(sent, received int64)
	limits relay.Limits
	slots  chan struct{} // One element per connection.
}

var errLimited = errors.New("too many connections")

// connection serves one connection, which carries one request.
func (p *proxy) connection(ctx context.Context, down *tls.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = down.Close() })
	defer stop()
	_ = down.SetDeadline(time.Now().Add(handshakeTimeout))
	target, early, code, problem := readRequest(down)
	if problem != "" {
		p.refuse(down, code, problem, nil)
		return
	}
	select {
	case p.slots <- struct{}{}:
	default:
		p.refuse(down, http.StatusServiceUnavailable, errLimited.Error(), errLimited)
		return
	}
	release := func() { <-p.slots }
	up, err := p.dial(ctx, target)
	if err != nil {
		release()
		code, text := p.answer(err)
		p.refuse(down, code, text, err)
		return
	}
	if s, ok := up.(*stream); ok {
		s.onGone(release) // Later than the end of the connection, if the client does not confirm it.
		s.onFull(func() { _ = down.Close() })
	} else {
		defer release()
	}
	_ = down.SetDeadline(time.Now().Add(handshakeTimeout))
	if _, err := io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_, _ = up.Close(), down.Close()
		return
	}
	_ = down.SetDeadline(time.Time{})
	p.done(http.StatusOK, nil)
	p.opened()
	p.closed(p.limits.Both(relay.WithPrefix(down, early), up))
}

// readRequest reads a request and returns its target and the bytes after it, or the status and the text to refuse it
// with. A status of 0 means that no response can be sent.
func readRequest(conn io.Reader) (target string, early []byte, code int, problem string) {
	limited := &io.LimitedReader{R: conn, N: maxHeader}
	r := bufio.NewReaderSize(limited, 512)
	request, err := http.ReadRequest(r)
	switch {
	case err != nil && limited.N == 0:
		return "", nil, http.StatusRequestHeaderFieldsTooLarge, "the request is too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "", nil, 0, "no request"
	case err != nil:
		return "", nil, http.StatusBadRequest, "the request is malformed"
	case request.Method != http.MethodConnect:
		return "", nil, http.StatusMethodNotAllowed, "only CONNECT is served here"
	}
	if _, _, err := net.SplitHostPort(request.Host); err != nil {
		return "", nil, http.StatusBadRequest, "the target must be host:port"
	}
	early, _ = r.Peek(r.Buffered())
	return request.Host, append([]byte{}, early...), 0, ""
}

// refuse answers and closes.
func (p *proxy) refuse(down net.Conn, code int, text string, err error) {
	defer down.Close()
	if code == 0 {
		return
	}
	p.done(code, err)
	_ = down.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	_, _ = fmt.Fprintf(down, "HTTP/1.1 %d %s\r\n"+
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
}

// tunnelProxy leads into the Shoot.
func (s *Server) tunnelProxy() *proxy {
	return &proxy{
		dial: func(_ context.Context, target string) (net.Conn, error) {
			if s.Inside != nil {
				addr, err := netip.ParseAddrPort(target)
				if err != nil {
					return nil, &dialError{dialForbidden, "names are not dialled in the Shoot"}
				}
				if err := s.Inside.Check(addr.Addr()); err != nil {
					return nil, &dialError{dialForbidden, err.Error()}
				}
			}
			if s.pool.streams() >= maxTunnelConnections {
				return nil, errLimited // A client need not confirm the end of streams, even of failed dials.
			}
			return s.open(target)
		},
		answer: func(err error) (int, string) { return statusCode(err), err.Error() },
		done: func(code int, err error) {
			s.metrics.requests.WithLabelValues(strconv.Itoa(code)).Inc()
			switch {
			case errors.Is(err, errLimited):
				s.metrics.limited.WithLabelValues(limitConnections).Inc()
			case err != nil:
				s.Log.V(1).Info("Target of a tunneled connection cannot be reached", "code", code, "reason", err.Error())
			}
		},
		opened: s.metrics.streams.Inc,
		closed: func(sent, received int64) {
			s.metrics.streams.Dec()
			s.metrics.bytes.WithLabelValues("to_shoot").Add(float64(sent))
			s.metrics.bytes.WithLabelValues("from_shoot").Add(float64(received))
		},
		limits: tunnelLimits,
		slots:  make(chan struct{}, maxTunnelConnections),
	}
}

// egressProxy leads out of the operator's networks, and for the selector of the control plane to exempt targets, too.
func (s *Server) egressProxy(selector string) *proxy {
	open := s.metrics.egressOpen.WithLabelValues(selector)
	dialer := *s.Egress
	if selector != selectorControlPlane {
		dialer.Exempt = nil
	}
	return &proxy{
		dial:   dialer.DialContext,
		answer: egressAnswer,
		done: func(code int, err error) {
			result := string(egress.ResultOf(err))
			switch {
			case errors.Is(err, errLimited):
				result = "limited"
			case err != nil:
				s.Log.V(1).Info("Connection outside is refused or has failed", "selector", selector, "result", result,
					"reason", err.Error())
			case code != http.StatusOK:
				result = "malformed"
			}
			s.metrics.egress.WithLabelValues(selector, result).Inc()
		},
		opened: open.Inc,
		closed: func(int64, int64) { open.Dec() },
		limits: egressLimits,
		slots:  make(chan struct{}, maxEgressConnections),
	}
}

// egressAnswer reports no more than the reason to the tenant's API server.
func egressAnswer(err error) (int, string) {
	var e *egress.Error
	switch {
	case !errors.As(err, &e):
		return http.StatusBadGateway, "the target was not reached"
	case e.Result == egress.RefusedAddress, e.Result == egress.RefusedName:
		return http.StatusForbidden, e.Reason
	case e.Timeout():
		return http.StatusGatewayTimeout, e.Reason
	default:
		return http.StatusBadGateway, e.Reason
	}
}
