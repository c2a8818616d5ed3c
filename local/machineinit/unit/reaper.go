package unit

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Reaper is the Starter of process 1. The kernel makes process 1 the parent of every orphan, and each has to be waited
// for; since a wait for "any child" also returns the children of units, both kinds go through here. Nothing else in
// the process may wait for children while Run is active.
type Reaper struct {
	mu      sync.Mutex // Held from fork to registration, so that no end is seen before its start.
	running map[int]*process
}

// NewReaper returns a Reaper; it needs Run.
func NewReaper() *Reaper { return &Reaper{running: map[int]*process{}} }

// Start implements Starter.
func (r *Reaper) Start(program Program) (Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started, err := start(program)
	if err != nil {
		return nil, err
	}
	p := newProcess(started.Pid)
	r.running[p.pid] = p
	started.Release() // The reaper waits by PID. Release cannot fail on Linux.
	return p, nil
}

// Run collects ended children until ctx is done.
func (r *Reaper) Run(ctx context.Context) {
	// One pending signal is enough: every round collects all children that have ended.
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		r.collect()
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 { // No children at all, or none that has ended.
			return
		}
		if p := r.running[pid]; p != nil {
			delete(r.running, pid)
			p.finish(exitOf(status))
		}
	}
}
