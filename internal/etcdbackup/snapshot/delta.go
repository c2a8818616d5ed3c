package snapshot

import (
	"bytes"
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
)

// errGap means that revisions are missing between two events.
var errGap = errors.New("revisions are missing")

// errHeld means that too many events wait for the store.
var errHeld = errors.New("the store is too slow or fails; dropping events, which are read again from etcd later")

// maxTTLs bounds the number of leases whose TTL is kept in memory.
const maxTTLs = 10000

// batch is the content of one delta: whole revisions without a gap.
type batch struct {
	first, last int64
	records     []byte
	events      int64
	leases      map[int64]bool
	// since is the time of the first event.
	since time.Time
}

// add appends the events of one answer of the watch. Answers hold whole revisions.
func (s *session) add(events []*clientv3.Event) error {
	sub := int64(0)
	for _, e := range events {
		kv := e.Kv
		switch {
		case kv.ModRevision == s.seen+1:
			s.seen, sub = kv.ModRevision, 0
		case kv.ModRevision == s.seen && sub > 0:
		default:
			return fmt.Errorf("%w: %d follows %d", errGap, kv.ModRevision, s.seen)
		}
		p := &s.pending
		if p.events == 0 {
			p.first, p.since, p.leases = kv.ModRevision, s.Clock.Now(), map[int64]bool{}
		}
		var err error
		if p.records, err = archive.AppendEvent(p.records, e.Type == clientv3.EventTypeDelete, kv, sub); err != nil {
			return err
		}
		if kv.Lease != 0 {
			p.leases[kv.Lease] = true
		}
		p.last, p.events, sub = kv.ModRevision, p.events+1, sub+1
	}
	held := len(s.pending.records)
	if s.flying != nil {
		held += len(s.flying.records)
	}
	s.mu.Lock()
	s.status.EtcdRevision = max(s.status.EtcdRevision, s.seen)
	if s.unsavedSince.IsZero() && s.pending.events > 0 {
		s.unsavedSince = s.pending.since
	}
	s.mu.Unlock()
	if held > heldDeltas*s.Options.DeltaBytes && s.flying != nil {
		return errHeld
	}
	return nil
}

// flush starts the upload of the pending batch; if an upload is running, it follows that.
func (s *session) flush(ctx context.Context) {
	if s.flying != nil || s.pending.events == 0 {
		return
	}
	b := s.pending
	s.flying, s.pending, s.retryPause = &b, batch{}, minPause
	s.upload(ctx)
}

func (s *session) upload(ctx context.Context) {
	s.retry = nil
	b := s.flying
	go func() { s.uploaded <- s.writeDelta(ctx, b) }()
}

// writeDelta compresses a batch in memory and uploads it.
func (s *session) writeDelta(ctx context.Context, b *batch) error {
	o := chain.Object{Epoch: s.Options.Epoch, Kind: chain.Delta, First: b.first, Last: b.last, Created: s.now()}
	records, err := s.leaseRecords(ctx, b)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, s.header(o))
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, r := range []struct {
		data   []byte
		events int64
	}{{records, 0}, {b.records, b.events}} {
		if err := w.Records(r.data, r.events); err != nil {
			return err
		}
	}
	if err := w.Close(archive.Trailer{}); err != nil {
		return err
	}
	o.Size = int64(out.Len())
	if err := s.guarded(ctx, func() error { return s.Store.Upload(ctx, o.Name(), out.Bytes()) }); err != nil {
		return err
	}
	s.stored(o)
	return nil
}

// leaseRecords reads the TTLs of new leases.
func (s *session) leaseRecords(ctx context.Context, b *batch) ([]byte, error) {
	if len(s.ttls) > maxTTLs {
		clear(s.ttls)
	}
	var records []byte
	for id := range b.leases {
		ttl, known := s.ttls[id]
		if !known {
			ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
			lease, err := s.Etcd.TimeToLive(ctx, clientv3.LeaseID(id))
			cancel()
			switch {
			case errors.Is(err, rpctypes.ErrLeaseNotFound):
			case err != nil:
				return nil, fmt.Errorf("read lease %x: %w", id, err)
			default:
				ttl = lease.GrantedTTL
			}
			s.ttls[id] = ttl
		}
		if ttl > 0 {
			records = archive.AppendLease(records, id, ttl)
		}
	}
	return records, nil
}

// landed handles the end of an upload.
func (s *session) landed(ctx context.Context, err error) error {
	s.failed("delta", err)
	if err != nil {
		if errors.Is(err, errSuperseded) {
			s.flying = nil
			return err
		}
		s.retry = s.Clock.After(s.retryPause)
		s.retryPause = min(2*s.retryPause, maxPause)
		return nil
	}
	s.saved, s.flying = s.flying.last, nil
	s.mu.Lock()
	s.unsavedSince = s.pending.since
	s.mu.Unlock()
	s.update(func(st *etcdbackup.Status) { st.SavedRevision = s.saved })
	s.answerDeltas()
	if s.isDue() || s.pending.events > 0 && s.Clock.Since(s.pending.since) >= s.Options.DeltaPeriod {
		s.flush(ctx)
	}
	return nil
}

// isDue reports whether the pending batch is large enough for a delta, or reaches a revision that was requested. A
// request often comes before the events that it waits for; they become one delta, however many answers of the watch
// they take.
func (s *session) isDue() bool {
	return len(s.pending.records) >= s.Options.DeltaBytes ||
		slices.ContainsFunc(s.waitingDelta, func(w waiting) bool { return w.revision <= s.seen })
}

// request handles one request of Snapshot.
func (s *session) request(ctx context.Context, r request) error {
	if r.kind == chain.Full {
		s.waitingFull = append(s.waitingFull, r)
		s.startFull(ctx)
		return nil
	}
	now, err := s.revision(ctx)
	if err != nil {
		r.answer <- answer{err: err}
		return err
	}
	s.waitingDelta = append(s.waitingDelta, waiting{r, now})
	s.answerDeltas()
	if s.isDue() {
		s.flush(ctx)
	}
	return nil
}

// answerDeltas answers the requests whose revision is saved.
func (s *session) answerDeltas() {
	var still []waiting
	for _, w := range s.waitingDelta {
		if w.revision > s.saved {
			still = append(still, w)
			continue
		}
		a := answer{snapshot: etcdbackup.Snapshot{Revision: s.saved}}
		if last := s.newest(); last != nil {
			a.snapshot.Object = last.Name()
		}
		w.answer <- a
	}
	s.waitingDelta = still
}

// drain saves the pending batch at the end of the process, so that an orderly stop loses nothing.
func (s *session) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	if s.flying != nil {
		if s.retry == nil {
			<-s.uploaded // It ended with the context of the session, perhaps halfway.
		}
		s.retry = nil
		if err := s.writeDelta(ctx, s.flying); err != nil {
			s.flying = nil
			return err
		}
		s.flying = nil
	}
	if s.pending.events == 0 {
		return nil
	}
	return s.writeDelta(ctx, &s.pending)
}
