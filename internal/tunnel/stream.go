package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/yamux"
)

const (
	// keepAliveInterval and keepAliveTimeout bound how long a dead peer stays in use: 15 seconds together.
	keepAliveInterval = 10 * time.Second
	keepAliveTimeout  = 5 * time.Second
	// acceptBacklog bounds the streams that the client has not accepted yet. It accepts at once, so this is the size of a
	// burst: a restarted API server opens at most a few streams per node.
	acceptBacklog = 4096
	// openBacklog bounds the streams that the server waits for the client to accept, which takes one round trip.
	openBacklog = 256
	// halfOpenLimit bounds a stream of which one side has finished. Kubernetes clients do not use half closed
	// connections for long; the bound frees streams whose other end never answers the close.
	halfOpenLimit = 5 * time.Minute
	// maxTargetLength and maxAnswerLength bound the two messages that begin a stream: a host name has at most 253
	// characters, an answer carries an error text.
	maxTargetLength = 512
	maxAnswerLength = 1024
)

// sessionConfig is the same at both ends.
func sessionConfig(log logr.Logger) *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = acceptBacklog
	c.KeepAliveInterval = keepAliveInterval
	c.ConnectionWriteTimeout = keepAliveTimeout
	c.StreamCloseTimeout = halfOpenLimit
	c.LogOutput = nil
	c.Logger = sessionLog{log}
	return c
}

// sessionLog passes the multiplexer's messages to the verbose log: the end of a session is reported with its cause
// elsewhere.
type sessionLog struct{ log logr.Logger }

func (l sessionLog) Print(v ...any) {
	l.log.V(2).Info("Message of the multiplexer of a tunnel session", "message", fmt.Sprint(v...))
}
func (l sessionLog) Println(v ...any)          { l.Print(v...) }
func (l sessionLog) Printf(f string, v ...any) { l.Print(fmt.Sprintf(f, v...)) }

// stream is one connection inside a session. Unlike the multiplexer's own type it distinguishes half close and close,
// keeps no buffers while it is idle, and is counted by the server.
type stream struct {
	*yamux.Stream
	held *ledger // Nil at the client.
	id   holding

	close sync.Once
	gone  func() // Called when the stream is completely closed.
}

// newStream wraps a stream of a session; held and session are nil at the client.
func newStream(y *yamux.Stream, held *ledger, session *guard) *stream {
	s := &stream{Stream: y, held: held, id: holding{session, y.StreamID()}, gone: func() {}}
	if held != nil {
		held.begin(s.id)
	}
	return s
}

// onGone sets the function that is called when nothing is left of the stream. It must be called before Close.
func (s *stream) onGone(f func()) { s.gone = f }

// onFull sets the function that is called when the stream has to be broken off because it holds too much.
func (s *stream) onFull(f func()) { s.held.onFull(s.id, f) }

// Read reports the end of the session as an error: the multiplexer returns a clean end then, and a truncated answer
// must not look complete.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	if s.held != nil {
		s.held.taken(s.id, n)
	}
	if n < len(b) {
		s.Shrink() // The buffer is probably empty now, and may stay so for hours.
	}
	if err == io.EOF && s.Session().IsClosed() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// CloseWrite signals the end of data to the peer; reading is still possible.
func (s *stream) CloseWrite() error { return s.Stream.Close() }

// Close ends both directions. The multiplexer knows no reset, so data that the peer still sends is discarded until the
// peer has seen the end, or until halfOpenLimit.
func (s *stream) Close() error {
	var err error
	s.close.Do(func() {
		err = s.Stream.Close()
		_ = s.SetReadDeadline(time.Time{}) // Never fails.
		go func() {
			_, _ = io.Copy(io.Discard, s)
			if s.held != nil {
				s.held.end(s.id)
			}
			s.gone()
		}()
	})
	return err
}

// Result codes of a dial, the first byte of the client's answer on a new stream.
const (
	dialOK byte = iota
	dialFailed
	dialTimeout
	dialForbidden
)

// dialError is a dial that failed at the client's end.
type dialError struct {
	code    byte
	message string
}

func (e *dialError) Error() string { return e.message }

// writeFrame writes a length (two bytes, big endian) and the text, in one packet.
func writeFrame(w io.Writer, lead []byte, text string, limit int) error {
	if len(text) > limit {
		text = text[:limit]
	}
	b := append([]byte{}, lead...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	_, err := w.Write(append(b, text...))
	return err
}

func readFrame(r io.Reader, limit int) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > limit {
		return "", fmt.Errorf("message of %d bytes exceeds %d", n, limit)
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	return string(text), err
}

// requestDial requests a dial of target from the client at the other end of s, and waits for its answer. The stream
// carries the connection afterwards.
func requestDial(s net.Conn, target string, timeout time.Duration) error {
	if len(target) > maxTargetLength {
		return &dialError{dialForbidden, "target address is too long"}
	}
	if err := s.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if err := writeFrame(s, nil, target, maxTargetLength); err != nil {
		return fmt.Errorf("send target: %w", err)
	}
	var code [1]byte
	if _, err := io.ReadFull(s, code[:]); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	message, err := readFrame(s, maxAnswerLength)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if code[0] != dialOK {
		return &dialError{code[0], message}
	}
	return s.SetDeadline(time.Time{})
}

// answerDial reports the outcome of a dial to the server.
func answerDial(s net.Conn, err error) error {
	if err == nil {
		return writeFrame(s, []byte{dialOK}, "", maxAnswerLength)
	}
	code := dialFailed
	var failed *dialError
	var netErr net.Error
	switch {
	case errors.As(err, &failed):
		code = failed.code
	case errors.As(err, &netErr) && netErr.Timeout():
		code = dialTimeout
	}
	return writeFrame(s, []byte{code}, err.Error(), maxAnswerLength)
}
