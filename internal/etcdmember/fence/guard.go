package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// Monotonic returns the time since the start of the machine, including sleep. It cannot be set, and continues while
// this process is stopped.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("read the clock: %v", err)) // Linux has had this clock since version 2.6.39.
	}
	return time.Duration(t.Nano())
}

// Guard records the confirmations of witnesses. It is safe for concurrent use.
type Guard struct {
	fenceTime time.Duration
	alone     bool
	path      string
	monotonic func() time.Duration
	clock     clock.PassiveClock // For people.

	mu        sync.Mutex
	owner     Owner
	since     time.Duration
	confirmed map[Witness]time.Duration
	successor *Successor
	changed   chan struct{}
}

// New returns a guard for an owner. A successor is recorded in the file at path, which also prevents later starts.
// alone says that there is no bucket.
func New(owner Owner, fenceTime time.Duration, alone bool, path string, monotonic func() time.Duration,
	clock clock.PassiveClock) (*Guard, error) {
	g := &Guard{owner: owner, fenceTime: fenceTime, alone: alone, path: path, monotonic: monotonic, clock: clock,
		since: monotonic(), confirmed: map[Witness]time.Duration{}, changed: make(chan struct{}, 1)}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &g.successor)
	}
	if err != nil {
		return nil, fmt.Errorf("read who has taken over: %w", err)
	}
	return g, nil
}

// Owner that is guarded.
func (g *Guard) Owner() Owner {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owner
}

// Become makes the guard one of another owner, without confirmations. A known owner that is newer than this one stays
// known.
func (g *Guard) Become(o Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owner, g.since = o, g.monotonic()
	clear(g.confirmed)
	g.wake()
}

// Decision returns the current decision.
func (g *Guard) Decision() Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Decide(Facts{Owner: g.owner, FenceTime: g.fenceTime, Alone: g.alone, Now: g.monotonic(), Since: g.since,
		Confirmed: g.confirmed, Successor: g.successor})
}

// Changed has an element when the decision may have changed.
func (g *Guard) Changed() <-chan struct{} { return g.changed }

// Now returns the current time, as Confirm expects it.
func (g *Guard) Now() time.Duration { return g.monotonic() }

// Confirm records the answer of a witness to a request. sent is when it was sent.
func (g *Guard) Confirm(w Witness, o Owner, sent time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Successor{Owner: o, Witness: w, Time: g.clock.Now()}
	switch {
	case s.Supersedes(g.owner):
		return g.supersede(s)
	case o.Epoch < g.owner.Epoch:
		return fmt.Errorf("epoch: invalid value: %d (this is epoch %d)", o.Epoch, g.owner.Epoch)
	}
	if last, ok := g.confirmed[w]; !ok || sent > last {
		g.confirmed[w] = sent
	}
	g.wake()
	return nil
}

// supersede is final, so it is written to disk first. If that fails, etcd ends nevertheless, and the witnesses report
// the successor again after a restart.
func (g *Guard) supersede(s Successor) error {
	if g.successor != nil && g.successor.Epoch >= s.Epoch {
		return nil
	}
	g.successor = &s
	g.wake()
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("note who has taken over: %w", err)
	}
	if err := WriteSynced(g.path, data); err != nil {
		return fmt.Errorf("note who has taken over: %w", err)
	}
	return nil
}

func (g *Guard) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// WriteSynced replaces a file; after a crash it has the old or the new content.
func WriteSynced(path string, data []byte) error {
	temporary := path + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
