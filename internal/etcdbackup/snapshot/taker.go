package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/robfig/cron/v3"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

// Store is the part of the object store that a Taker needs.
type Store interface {
	List(context.Context) (store.Listing, error)
	Claim(context.Context, chain.Claim) (chain.Claim, error)
	Claimed(context.Context, int64) (bool, error)
	Create(context.Context, string) (*store.Upload, error)
	Upload(context.Context, string, []byte) error
	Open(context.Context, string) (io.ReadCloser, error)
}

// Options of a Taker.
type Options struct {
	// Epoch and Holder of the owner; Identity goes into the header of every object.
	Epoch            int64
	Holder, Identity string
	// Nonce distinguishes the claims of this process from those of others.
	Nonce string
	// Schedule of full snapshots.
	Schedule cron.Schedule
	// DeltaPeriod is the longest time until a change is saved; DeltaBytes the size of pending events at which they are
	// saved earlier.
	DeltaPeriod time.Duration
	DeltaBytes  int
}

const (
	// leaderPeriod is the interval at which a member checks whether it leads. Taking over a little later loses nothing:
	// the next leader watches from the last saved revision.
	leaderPeriod = 15 * time.Second
	// etcdTimeout bounds one request to etcd.
	etcdTimeout = 15 * time.Second
	// minPause and maxPause are the pauses after failures, doubled each time.
	minPause, maxPause = time.Second, time.Minute
	// heldDeltas bounds the events in memory while the store is slow, in deltas.
	heldDeltas = 3
)

// errSuperseded means that a newer epoch was claimed.
var errSuperseded = errors.New("a newer epoch has been claimed")

// Taker takes backups of one etcd member's cluster.
type Taker struct {
	// Etcd is connected to exactly one endpoint: that of the member next to this process.
	Etcd    *clientv3.Client
	Store   Store
	Clock   clock.WithTickerAndDelayedExecution
	Log     logr.Logger
	Options Options
	// Stored is called after every object that was stored, and after every listing with nil.
	Stored func(o *chain.Object, l *store.Listing)
	// Failed is called for every failed operation; may be nil.
	Failed func(operation string)

	requests chan request
	once     sync.Once

	mu     sync.Mutex
	status etcdbackup.Status
	// unsavedSince is the time at which the oldest change that is not in the store was seen; zero if there is none.
	unsavedSince time.Time
}

type request struct {
	kind   chain.Kind
	answer chan answer
}

type answer struct {
	snapshot etcdbackup.Snapshot
	err      error
}

func (t *Taker) init() {
	t.once.Do(func() { t.requests = make(chan request) })
}

// Run takes backups until ctx ends.
func (t *Taker) Run(ctx context.Context) {
	t.init()
	t.update(func(s *etcdbackup.Status) {
		s.Phase, s.Epoch, s.Holder = etcdbackup.PhaseStarting, t.Options.Epoch, t.Options.Holder
	})
	pause := minPause
	for ctx.Err() == nil {
		began := t.Clock.Now()
		err := t.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if t.Clock.Since(began) > maxPause {
			pause = minPause
		}
		t.failed("session", err)
		t.wait(ctx, pause)
		pause = min(2*pause, maxPause)
	}
}

// wait pauses; requests that come in meanwhile are refused with the last error.
func (t *Taker) wait(ctx context.Context, d time.Duration) {
	timer := t.Clock.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
			return
		case r := <-t.requests:
			r.answer <- answer{err: t.refusal()}
		}
	}
}

func (t *Taker) refusal() error {
	s := t.Status()
	switch {
	case s.Phase == etcdbackup.PhaseStandby:
		return errors.New("another member leads the etcd cluster and takes its backups")
	case s.LastError != nil:
		return errors.New(s.LastError.Message)
	}
	return fmt.Errorf("not ready: %s", s.Phase)
}

// Snapshot waits until everything that etcd holds now is in the store: as a delta, or as a new full snapshot.
func (t *Taker) Snapshot(ctx context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	t.init()
	r := request{kind: kind, answer: make(chan answer, 1)}
	select {
	case t.requests <- r:
	case <-ctx.Done():
		return etcdbackup.Snapshot{}, ctx.Err()
	}
	select {
	case a := <-r.answer:
		return a.snapshot, a.err
	case <-ctx.Done():
		return etcdbackup.Snapshot{}, ctx.Err()
	}
}

// Status is a copy of the current status.
func (t *Taker) Status() etcdbackup.Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	if !t.unsavedSince.IsZero() {
		s.SecondsBehind = max(0, t.Clock.Since(t.unsavedSince).Seconds())
	}
	return s
}

func (t *Taker) update(change func(*etcdbackup.Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.status)
}

// failed reports an error of an operation; nil clears it.
func (t *Taker) failed(operation string, err error) {
	if err != nil {
		t.Log.Info("Operation on the backups of etcd has failed and is retried", "operation", operation, "error", err.Error())
		if t.Failed != nil {
			t.Failed(operation)
		}
	}
	t.update(func(s *etcdbackup.Status) {
		switch {
		case err == nil:
			if s.LastError != nil && s.LastError.Operation == operation {
				s.LastError = nil
			}
			return
		case errors.Is(err, errSuperseded):
			s.Phase = etcdbackup.PhaseSuperseded
		case operation == "session":
			s.Phase = etcdbackup.PhaseFailing
		}
		s.LastError = &etcdbackup.Failure{Time: t.Clock.Now(), Message: err.Error(), Operation: operation}
	})
}

// Report writes the outcome of other work, such as a verification, to the status.
func (t *Taker) Report(operation string, err error, change func(*etcdbackup.Status)) {
	t.failed(operation, err)
	if change != nil {
		t.update(change)
	}
}
