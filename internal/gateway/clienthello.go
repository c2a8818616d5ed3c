package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	recordHandshake  = 22
	helloMessage     = 1
	extensionName    = 0
	nameTypeHost     = 0
	recordHeaderSize = 5
	maxRecordSize    = 16 << 10
	// maxHelloSize bounds the bytes read before the server name is known. Hellos with post-quantum key shares and
	// session tickets stay below 4 KiB; the limit of the protocol would be 16 MiB.
	maxHelloSize = 16 << 10
)

var errHello = errors.New("malformed ClientHello")

// readClientHello reads from r just the TLS records that hold the ClientHello and returns the server name in it, empty
// if it has none, and all bytes read, to be sent on.
func readClientHello(r io.Reader) (name string, raw []byte, err error) {
	var message []byte
	for len(message) < 4 || len(message) < 4+helloLength(message) {
		record, err := readRecord(r, &raw)
		if err != nil {
			return "", raw, err
		}
		message = append(message, record...)
		if message[0] != helloMessage {
			return "", raw, fmt.Errorf("%w: handshake message %d", errHello, message[0])
		}
		if len(message) > maxHelloSize || len(message) >= 4 && helloLength(message) > maxHelloSize {
			return "", raw, fmt.Errorf("%w: larger than %d bytes", errHello, maxHelloSize)
		}
	}
	name, err = serverName(message[4 : 4+helloLength(message)])
	return name, raw, err
}

func helloLength(message []byte) int {
	return int(message[1])<<16 | int(message[2])<<8 | int(message[3])
}

// readRecord reads one handshake record, appends it to raw and returns its payload, which is never empty.
func readRecord(r io.Reader, raw *[]byte) ([]byte, error) {
	start := len(*raw)
	*raw = append(*raw, make([]byte, recordHeaderSize)...)
	if n, err := io.ReadFull(r, (*raw)[start:]); err != nil {
		*raw = (*raw)[:start+n]
		return nil, err
	}
	header := (*raw)[start:]
	size := int(binary.BigEndian.Uint16(header[3:]))
	if header[0] != recordHandshake || header[1] != 3 || size == 0 || size > maxRecordSize {
		return nil, fmt.Errorf("%w: not a TLS handshake record", errHello)
	}
	body := len(*raw)
	*raw = append(*raw, make([]byte, size)...)
	if n, err := io.ReadFull(r, (*raw)[body:]); err != nil {
		*raw = (*raw)[:body+n]
		return nil, err
	}
	return (*raw)[body:], nil
}

// cursor reads from a message; after the first short read everything is empty and bad is set.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n > len(c.b) {
		c.b, c.bad = nil, true
		return make([]byte, min(n, 2)) // Enough for any integer below.
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) uint8() int  { return int(c.take(1)[0]) }
func (c *cursor) uint16() int { return int(binary.BigEndian.Uint16(c.take(2))) }

// sub returns a cursor over the next n bytes.
func (c *cursor) sub(n int) cursor {
	out := cursor{b: c.take(n)}
	out.bad = c.bad
	return out
}

// serverName finds the host name in the body of a ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3).
func serverName(body []byte) (string, error) {
	c := cursor{b: body}
	c.take(2 + 32)     // Version and random.
	c.take(c.uint8())  // Session ID.
	c.take(c.uint16()) // Cipher suites.
	c.take(c.uint8())  // Compression methods.
	if !c.bad && len(c.b) == 0 {
		return "", nil // No extensions at all.
	}
	extensions := c.sub(c.uint16())
	for !extensions.bad && len(extensions.b) > 0 {
		kind := extensions.uint16()
		data := extensions.sub(extensions.uint16())
		if kind != extensionName {
			continue
		}
		list := data.sub(data.uint16())
		for !list.bad && len(list.b) > 0 {
			nameType := list.uint8()
			name := list.sub(list.uint16())
			if !name.bad && nameType == nameTypeHost && len(name.b) > 0 {
				return string(name.b), nil
			}
		}
		if list.bad {
			return "", errHello
		}
	}
	if c.bad || extensions.bad {
		return "", errHello
	}
	return "", nil
}
