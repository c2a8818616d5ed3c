package landscape

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// noticeAfter is how long a step may stay silent before Progress says what it is doing.
const noticeAfter = 2 * time.Second

// Progress prints the running steps and their durations for people. Steps may run concurrently.
type Progress struct {
	Out   io.Writer
	Clock clock.WithTicker

	mu sync.Mutex
}

// Step runs what and prints its outcome with the time it took. A step of over two seconds is announced while it runs.
func (p *Progress) Step(ctx context.Context, what string, run func(context.Context) error) error {
	start := p.Clock.Now()
	finished := make(chan struct{})
	var announcer sync.WaitGroup
	announcer.Go(func() {
		timer := p.Clock.NewTimer(noticeAfter)
		defer timer.Stop()
		select {
		case <-timer.C():
			p.printf("  ... %s\n", what)
		case <-finished:
		}
	})
	err := run(ctx)
	close(finished)
	announcer.Wait()

	took := p.Clock.Since(start).Round(100 * time.Millisecond)
	if err != nil {
		p.printf("  failed: %s (%s)\n", what, took)
		return fmt.Errorf("%s: %w", what, err)
	}
	p.printf("  done: %s (%s)\n", what, took)
	return nil
}

func (p *Progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.Out, format, args...)
}
