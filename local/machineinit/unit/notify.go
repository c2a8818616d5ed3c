package unit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// readiness is the socket on which a unit of type notify says that it has started.
type readiness struct {
	path     string
	received chan struct{} // Closed at the first READY=1.
	dir      string
	socket   *net.UnixConn
}

func listenReady() (*readiness, error) {
	dir, err := os.MkdirTemp("", "unit-notify-")
	if err != nil {
		return nil, fmt.Errorf("make directory of notify socket: %w", err)
	}
	r := &readiness{dir: dir, path: filepath.Join(dir, "socket"), received: make(chan struct{})}
	r.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: r.path, Net: "unixgram"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on notify socket: %w", err), os.RemoveAll(dir))
	}
	go r.read()
	return r, nil
}

func (r *readiness) read() {
	buffer := make([]byte, 4096) // systemd's own limit for a message.
	for ready := false; ; {
		n, err := r.socket.Read(buffer)
		if err != nil {
			return // Closed.
		}
		for line := range strings.Lines(string(buffer[:n])) {
			if strings.TrimSpace(line) == "READY=1" && !ready {
				ready = true
				close(r.received)
			}
		}
	}
}

func (r *readiness) close() {
	_ = r.socket.Close()
	_ = os.RemoveAll(r.dir)
}
