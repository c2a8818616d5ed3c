package restore

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"
)

// progressEvery keeps the log of a long restore readable.
const progressEvery = 5 * time.Second

// Progress reports the progress of a restore to people.
type Progress struct {
	Out   io.Writer
	Clock clock.PassiveClock
}

// Printf prints one line.
func (p Progress) Printf(format string, args ...any) {
	fmt.Fprintf(p.Out, format+"\n", args...)
}

// steps returns a function that counts finished steps and prints the count now and then.
func (p Progress) steps(what string, total int64) func(int64) {
	done, last := int64(0), p.Clock.Now()
	return func(n int64) {
		done += n
		if now := p.Clock.Now(); now.Sub(last) >= progressEvery || done == total {
			p.Printf("%s: %d of %d", what, done, total)
			last = now
		}
	}
}

// bytes is the same for a total that is not known.
func (p Progress) bytes(what string) func(int64) {
	done, last := int64(0), p.Clock.Now()
	return func(n int64) {
		done += n
		if now := p.Clock.Now(); now.Sub(last) >= progressEvery {
			p.Printf("%s: %d MiB", what, done>>20)
			last = now
		}
	}
}
