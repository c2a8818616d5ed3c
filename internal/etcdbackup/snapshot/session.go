package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/restore"
)

// session is one run of backups, from a listing to the first problem.
type session struct {
	*Taker
	clusterID, memberID uint64
	version             string

	// saved is the last revision in the store. Deltas continue from there.
	saved int64
	// seen is the last revision in pending, or saved.
	seen    int64
	pending batch
	// flying is the batch that is being uploaded; nil if there is none.
	flying *batch
	// retry fires when flying is to be uploaded again after a failure.
	retry      <-chan time.Time
	retryPause time.Duration
	uploaded   chan error
	// fullRunning is set while a full snapshot is taken; fullDone receives its result.
	fullRunning bool
	fullDone    chan fullResult
	fullRetry   <-chan time.Time
	fullPause   time.Duration
	// waitingFull are requests for a full snapshot that begins after they were made; waitingDelta for a revision.
	waitingFull, startedFull []request
	waitingDelta             []waiting
	ttls                     map[int64]int64
}

type waiting struct {
	request
	revision int64
}

type fullResult struct {
	object chain.Object
	err    error
}

// session returns the reason for its end.
func (t *Taker) session(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{Taker: t, uploaded: make(chan error, 1), fullDone: make(chan fullResult, 1), ttls: map[int64]int64{}}
	defer func() {
		cancel()
		s.end(err)
	}()
	if err := s.lead(ctx); err != nil {
		return err
	}
	behind, err := s.resume(ctx)
	if err != nil {
		return err
	}
	if behind != "" {
		s.Log.Info("Taking a full snapshot first", "reason", behind)
		if err := s.startOver(ctx); err != nil {
			return err
		}
	}
	s.update(func(st *etcdbackup.Status) { st.Phase, st.SavedRevision = etcdbackup.PhaseActive, s.saved })
	s.failed("session", nil)
	return s.watch(ctx)
}

// end waits for uploads, which end with the context, and answers requests.
func (s *session) end(err error) {
	if s.flying != nil && s.retry == nil {
		<-s.uploaded
	}
	if s.fullRunning {
		<-s.fullDone
	}
	if err == nil {
		err = context.Canceled
	}
	for _, r := range append(s.waitingFull, s.startedFull...) {
		r.answer <- answer{err: err}
	}
	for _, r := range s.waitingDelta {
		r.answer <- answer{err: err}
	}
}

// lead waits until this member leads its cluster.
func (s *session) lead(ctx context.Context) error {
	for {
		leads, err := s.leads(ctx)
		if err != nil || leads {
			return err
		}
		s.update(func(st *etcdbackup.Status) { st.Phase = etcdbackup.PhaseStandby })
		s.wait(ctx, leaderPeriod)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (s *session) leads(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	answer, err := s.Etcd.Status(ctx, s.Etcd.Endpoints()[0])
	if err != nil {
		return false, fmt.Errorf("read status of etcd: %w", err)
	}
	s.clusterID, s.memberID, s.version = answer.Header.ClusterId, answer.Header.MemberId, answer.Version
	return answer.Leader == answer.Header.MemberId, nil
}

// revision returns the current revision of etcd, agreed on by the cluster.
func (s *session) revision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	got, err := s.Etcd.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("read revision of etcd: %w", err)
	}
	s.update(func(st *etcdbackup.Status) { st.EtcdRevision = max(st.EtcdRevision, got.Header.Revision) })
	return got.Header.Revision, nil
}

// resume reads from the store which revisions are saved. If deltas cannot continue from there, it returns the reason.
func (s *session) resume(ctx context.Context) (reason string, err error) {
	l, err := s.Store.List(ctx)
	if err != nil {
		return "", err
	}
	s.Stored(nil, &l)
	newest, claimed := chain.Newest(l.Claims)
	if claimed && newest.Epoch > s.Options.Epoch {
		return "", fmt.Errorf("%w: epoch %d by %q, this is epoch %d", errSuperseded, newest.Epoch, newest.Holder,
			s.Options.Epoch)
	}
	if !claimed || newest.Epoch < s.Options.Epoch {
		c := chain.Claim{Epoch: s.Options.Epoch, Holder: s.Options.Holder, Nonce: s.Options.Nonce, Time: s.Clock.Now().UTC(),
			Revision: restore.ContinuesFrom(l)}
		if newest, err = s.Store.Claim(ctx, c); err != nil {
			return "", err
		}
	}
	if newest.Holder != s.Options.Holder {
		return "", fmt.Errorf("%w: epoch %d belongs to %q, not to %q", errSuperseded, newest.Epoch, newest.Holder,
			s.Options.Holder)
	}
	now, err := s.revision(ctx)
	if err != nil {
		return "", err
	}
	current, target := l.Current()
	own := slices.DeleteFunc(slices.Clone(current), func(o chain.Object) bool { return o.Epoch != s.Options.Epoch })
	best, ok := chain.Select(chain.Build(own), chain.Target{})
	if !ok || target.Revision > 0 { // The origin of the branch is no backup of the revisions that follow.
		return "the epoch, or the restore that etcd began with, has no backup yet", nil
	}
	if best.Last() > now {
		return "",
			fmt.Errorf("etcd is at revision %d, but the backups reach %d: data has been lost. Restart it so that it is restored",
				now, best.Last())
	}
	same, err := s.sameCluster(ctx, best.Full)
	if err != nil {
		return "", err
	}
	if !same {
		return "the backups are of another cluster", nil
	}
	s.saved, s.seen = best.Last(), best.Last()
	s.remember(best, now)
	return "", nil
}

// remember writes the content of the store to the status.
func (s *session) remember(c chain.Chain, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.LastFull = &c.Full
	if n := len(c.Deltas); n > 0 {
		s.status.LastDelta = &c.Deltas[n-1]
	}
	switch {
	case s.saved == now:
		s.unsavedSince = time.Time{}
	case s.unsavedSince.IsZero():
		s.unsavedSince = s.Clock.Now()
	}
}

// sameCluster compares the cluster ID in the header of a full snapshot.
func (s *session) sameCluster(ctx context.Context, o chain.Object) (bool, error) {
	in, err := s.Store.Open(ctx, o.Name())
	if err != nil {
		return false, err
	}
	defer in.Close()
	r, err := archive.NewReader(in)
	if errors.Is(err, archive.ErrDamaged) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer r.Close()
	return r.Header.ClusterID == hex(s.clusterID), nil
}

func hex(id uint64) string { return fmt.Sprintf("%016x", id) }

// startOver takes a full snapshot that deltas continue from.
func (s *session) startOver(ctx context.Context) error {
	result := s.takeFull(ctx)
	s.failed("full", result.err)
	if result.err != nil {
		return result.err
	}
	s.saved, s.seen = result.object.Last, result.object.Last
	return nil
}

// watch collects events, and uploads them in time.
func (s *session) watch(ctx context.Context) error {
	watchCtx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer func() { stop() }()
	events := s.Etcd.Watch(watchCtx, "", clientv3.WithPrefix(), clientv3.WithRev(s.saved+1), clientv3.WithFragment())
	leader := s.Clock.NewTicker(leaderPeriod)
	defer leader.Stop()
	full := s.Clock.NewTimer(s.untilFull())
	defer full.Stop()
	period := s.Clock.NewTimer(s.Options.DeltaPeriod)
	period.Stop()
	defer period.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return s.drain()
		case r, open := <-events:
			if !open {
				return errors.New("the watch of etcd has ended")
			}
			if errors.Is(r.Err(), rpctypes.ErrCompacted) || r.CompactRevision > 0 {
				return s.gap(ctx, fmt.Sprintf("revision %d was compacted at %d before it was saved", s.seen+1, r.CompactRevision))
			} else if r.Err() != nil {
				return fmt.Errorf("watch etcd: %w", r.Err())
			}
			if s.pending.events == 0 && len(r.Events) > 0 {
				period.Reset(s.Options.DeltaPeriod)
			}
			if err = s.add(r.Events); errors.Is(err, errGap) {
				return s.gap(ctx, err.Error())
			}
			if err == nil && s.isDue() {
				s.flush(ctx)
			}
		case <-period.C():
			s.flush(ctx)
		case <-s.retry:
			s.upload(ctx)
		case err = <-s.uploaded:
			err = s.landed(ctx, err)
		case <-full.C():
			s.startFull(ctx)
			full.Reset(s.untilFull())
		case <-s.fullRetry:
			s.startFull(ctx)
		case result := <-s.fullDone:
			err = s.fullEnded(ctx, result)
		case r := <-s.requests:
			err = s.request(ctx, r)
		case <-leader.C():
			var leads bool
			if leads, err = s.leads(ctx); err == nil && !leads {
				err = errors.New("another member leads the etcd cluster now")
			}
			full.Reset(s.untilFull()) // The schedule may have changed.
		}
		if err != nil {
			return err
		}
	}
}

// gap closes a gap in the revisions with a full snapshot at once; the next session continues from it.
func (s *session) gap(ctx context.Context, reason string) error {
	s.Log.Info("Taking a full snapshot to close a gap", "reason", reason)
	if s.fullRunning { // It began before the gap was known; its revision may be before it.
		<-s.fullDone
		s.fullRunning = false
	}
	if err := s.startOver(ctx); err != nil {
		return err
	}
	return fmt.Errorf("events were missed (%s); continuing from the full snapshot at revision %d", reason, s.saved)
}

// untilFull is the time until the next full snapshot is due. A snapshot that is running or being retried was not
// missed.
func (s *session) untilFull() time.Duration {
	now := s.Clock.Now()
	if last := s.Status().LastFull; last != nil && !s.fullRunning && s.fullRetry == nil {
		if due := s.Options.Schedule.Next(last.Created); due.Before(now) {
			return 0 // A full snapshot was missed.
		}
	}
	return s.Options.Schedule.Next(now).Sub(now)
}
