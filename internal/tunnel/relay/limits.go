package relay

import (
	"io"
	"math"
	"net"
	"sync"
	"time"
)

const (
	// smallBuffer is the buffer with which a direction waits for data: most connections carry little, and thousands of
	// them wait at a time.
	smallBuffer = 2 << 10
	// bigBuffer is for a direction that has filled its buffer and has probably more; it has room for a record of TLS.
	bigBuffer = 16 << 10
)

// Limits bound relayed connections. A zero field means no limit.
type Limits struct {
	// Idle is how long both directions together may be without a byte.
	Idle time.Duration
	// HalfOpen is the same once one side has ended its direction and only the other may still send.
	HalfOpen time.Duration
	// Write is how long one side may accept no byte that is sent to it.
	Write time.Duration
}

// Both copies like the function Both, within the limits: it breaks off both connections when one of them is exceeded.
func (l Limits) Both(a, b net.Conn) (toB, toA int64) {
	abort := sync.OnceFunc(func() { breakOff(a); breakOff(b) })
	var mu sync.Mutex
	limit := l.Idle
	timer := time.AfterFunc(math.MaxInt64, abort) // Never, unless it is set below.
	defer timer.Stop()
	active := func() {
		mu.Lock()
		defer mu.Unlock()
		if limit > 0 {
			timer.Reset(limit)
		}
	}
	active()
	return both(a, b, func(dst io.Writer, src io.Reader) (int64, error) {
		n, err := l.copy(dst.(net.Conn), src, active)
		if l.HalfOpen > 0 {
			mu.Lock()
			limit = l.HalfOpen
			mu.Unlock()
			active()
		}
		return n, err
	}, abort)
}

// copy is io.Copy with a deadline for every write.
func (l Limits) copy(dst net.Conn, src io.Reader, active func()) (int64, error) {
	var total int64
	small := make([]byte, smallBuffer)
	buffer := small
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			active()
			if l.Write > 0 {
				_ = dst.SetWriteDeadline(time.Now().Add(l.Write)) // Fails on a closed connection, as the write does.
			}
			written, err := dst.Write(buffer[:n])
			total += int64(written)
			if err != nil {
				return total, err
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		switch {
		case n < len(buffer):
			buffer = small
		case n == smallBuffer:
			buffer = make([]byte, bigBuffer)
		}
	}
}
