package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// requestsLimit is the number of requests that are served at a time; others wait. Kubelets run at most a few
	// hundred pods.
	requestsLimit = 256
	// confineTimeout bounds the wait for a Pod to arrive and for its rules to be applied.
	confineTimeout = 10 * time.Second
	// ioTimeout is for reading a request, and again for writing the reply. Both are single small messages on one machine.
	ioTimeout = 5 * time.Second
	// errorBytes is the longest error that is reported. JSON has up to six bytes for one, so it fits a message.
	errorBytes = 2 << 10
	// socketMode lets only root connect.
	socketMode = 0o600
)

// Server answers plugins. The functions are called concurrently.
type Server struct {
	Path    string                                           // Of the socket; an existing file is replaced.
	Confine func(ctx context.Context, sandbox Sandbox) error // Returns when the pod's rules are in force.
	Release func(sandbox Sandbox)                            // The sandbox has no addresses.
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every node has its server.
func (*Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends. It returns when all requests are answered.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.listen()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var requests sync.WaitGroup
	defer requests.Wait()
	slots := make(chan struct{}, requestsLimit)
	for {
		slots <- struct{}{}
		conn, err := listener.Accept()
		if err != nil {
			_ = listener.Close()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on %s: %w", s.Path, err)
		}
		requests.Go(func() {
			defer func() { <-slots }()
			s.serve(ctx, conn)
		})
	}
}

// listen makes the socket under another name, so that it appears with its permissions and in the place of a stale one.
// The file stays when the server ends: connections to it are refused, which plugins try again like a missing file.
func (s *Server) listen() (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return nil, fmt.Errorf("make directory of socket: %w", err)
	}
	temp := s.Path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temp, socketMode), os.Rename(temp, s.Path)); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("place socket %s: %w", s.Path, err)
	}
	return listener, nil
}

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(ioTimeout)) // Fails only on closed connections, which reading notices.
	answer := reply{Done: true}
	if err := s.answer(ctx, conn); err != nil {
		answer = reply{Error: err.Error()}
	}
	if len(answer.Error) > errorBytes {
		answer.Error = answer.Error[:errorBytes]
	}
	_ = conn.SetWriteDeadline(time.Now().Add(ioTimeout))
	_, _ = conn.Write(mustEncode(answer)) // A plugin that has ended needs no answer.
}

func (s *Server) answer(ctx context.Context, conn io.Reader) error {
	var r request
	if err := json.NewDecoder(io.LimitReader(conn, messageBytes)).Decode(&r); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if r.Command == status {
		return nil
	}
	if err := r.Sandbox.check(); err != nil {
		return fmt.Errorf("check request: %w", err)
	}
	switch r.Command {
	case confine:
		ctx, cancel := context.WithTimeout(ctx, confineTimeout)
		defer cancel()
		return s.Confine(ctx, r.Sandbox)
	case release:
		s.Release(r.Sandbox)
		return nil
	}
	return fmt.Errorf("unknown command %q", r.Command)
}
