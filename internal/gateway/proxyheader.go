package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// maxProxyHeader bounds header and extensions of the PROXY protocol.
const maxProxyHeader = 4 << 10

// readProxyHeader reads a PROXY protocol v2 header and returns the destination it carries and bytes that came after it.
// Version 1, LOCAL connections and anything but TCP are refused: only apiserver-proxies connect here.
func readProxyHeader(conn io.Reader) (to netip.AddrPort, early []byte, err error) {
	r := bufio.NewReaderSize(io.LimitReader(conn, maxProxyHeader), maxProxyHeader)
	h, err := proxyproto.Read(r)
	if err != nil {
		return netip.AddrPort{}, nil, fmt.Errorf("read PROXY header: %w", err)
	}
	_, addr, ok := h.TCPAddrs()
	if h.Version != 2 || !h.Command.IsProxy() || !ok {
		return netip.AddrPort{}, nil, errors.New("not a PROXY protocol v2 header for TCP")
	}
	early, _ = r.Peek(r.Buffered())
	return addr.AddrPort(), early, nil
}
