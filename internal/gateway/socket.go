package gateway

import (
	"net"

	"golang.org/x/sys/unix"
)

// bound bounds the kernel's buffers of a connection. If it fails, the connection is broken, which its user will notice.
func bound(conn net.Conn, receive int) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetReadBuffer(receive)
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
		})
	}
}
