package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/robfig/cron/v3"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/maintain"
	"hortus.dev/hortus/internal/etcdbackup/snapshot"
	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/etcdbackup/verify"
)

const (
	// maintainPeriod is the time until a NOSPACE alarm is noticed, at most: etcd refuses all writes until it is
	// resolved.
	maintainPeriod = time.Minute
	// retentionPeriod is the interval at which old objects are deleted.
	retentionPeriod = time.Hour
	etcdTimeout     = 15 * time.Second
)

// Keeper takes the backups of one etcd member while it leads its cluster. It also reads new ones back, deletes old
// ones, verifies them, and maintains etcd.
type Keeper struct {
	etcd      *clientv3.Client
	store     *store.Store
	clock     clock.WithTicker
	log       logr.Logger
	flags     *Flags
	schedules schedules
	taker     *snapshot.Taker
	// stored wakes the keeper after a full snapshot.
	stored chan struct{}

	mu sync.Mutex
	// unread is the newest full snapshot that was not read back yet.
	unread *chain.Object
}

// changed is called for every stored object and every listing.
func (k *Keeper) changed(o *chain.Object, l *store.Listing) {
	switch {
	case l != nil:
		k.count(*l)
	case o.Kind == chain.Full:
		k.mu.Lock()
		k.unread = o
		k.mu.Unlock()
		select {
		case k.stored <- struct{}{}:
		default:
		}
	default:
		k.taker.Report("listing", nil, func(s *etcdbackup.Status) {
			s.Objects, s.SizeBytes = s.Objects+1, s.SizeBytes+
				o.Size
		})
	}
}

// count writes the content of the store to the status.
func (k *Keeper) count(l store.Listing) {
	owned, _ := chain.Owned(l.Objects, l.Claims)
	size := int64(0)
	for _, o := range l.Objects {
		size += o.Size
	}
	k.taker.Report("listing", nil, func(s *etcdbackup.Status) {
		s.Chains, s.Objects, s.SizeBytes, s.Location = len(chain.Build(owned)), len(l.Objects), size, k.store.Location()
	})
}

// run works until ctx ends. Everything happens one after another: nothing here is urgent, and memory counts.
func (k *Keeper) run(ctx context.Context) {
	tick := k.clock.NewTicker(maintainPeriod)
	defer tick.Stop()
	verifyAt, defragmentAt := due{schedule: k.schedules.verify}, due{schedule: k.schedules.defragment}
	verifyAt.passed(k.clock.Now())
	defragmentAt.passed(k.clock.Now())
	retained := k.clock.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.stored:
			k.report(ctx, "read back", k.readBack(ctx))
			k.report(ctx, "retention", k.retain(ctx))
			retained = k.clock.Now()
		case <-tick.C():
			debug.FreeOSMemory() // Takes milliseconds; without it the memory of an upload stays for many minutes.
			_, err := maintain.Once(ctx, k.etcd, k.flags.limits, defragmentAt.passed(k.clock.Now()), k.log)
			k.report(ctx, "maintenance", err)
			if k.taker.Status().Phase != etcdbackup.PhaseActive {
				continue
			}
			if k.clock.Since(retained) >= retentionPeriod {
				k.report(ctx, "retention", k.retain(ctx))
				retained = k.clock.Now()
			}
			if verifyAt.passed(k.clock.Now()) {
				k.report(ctx, "verification", k.verify(ctx))
			}
		}
	}
}

func (k *Keeper) report(ctx context.Context, operation string, err error) {
	if ctx.Err() == nil {
		k.taker.Report(operation, err, nil)
	}
}

// due records the next time of a schedule.
type due struct {
	schedule cron.Schedule
	next     time.Time
}

// passed reports, once, that the next time has come.
func (d *due) passed(now time.Time) bool {
	passed := !d.next.IsZero() && !now.Before(d.next)
	// A clock that was set back must not stop it for long.
	if next := d.schedule.Next(now); d.next.IsZero() || passed || next.Before(d.next) {
		d.next = next
	}
	return passed
}

// readBack proves that the newest full snapshot was stored as it was written.
func (k *Keeper) readBack(ctx context.Context) error {
	k.mu.Lock()
	o := k.unread
	k.unread = nil
	k.mu.Unlock()
	if o == nil {
		return nil
	}
	return verify.Object(ctx, k.store, *o)
}

// retain deletes the objects that are no longer needed.
func (k *Keeper) retain(ctx context.Context) error {
	l, err := k.store.List(ctx)
	if err != nil {
		return err
	}
	if newest, ok := chain.Newest(l.Claims); !ok || newest.Epoch != k.flags.Store.Epoch ||
		newest.Holder != k.flags.Store.Holder {
		return nil // Not the owner: this process must not decide about retention.
	}
	v, err := k.store.Verified(ctx)
	if err != nil {
		return err
	}
	var verified *chain.Object
	if v != nil {
		verified = &v.Full
		k.taker.Report("retention", nil, func(s *etcdbackup.Status) {
			if s.LastVerification == nil {
				s.LastVerification = &etcdbackup.Verification{Time: v.Time, Revision: v.Revision, Keys: v.Keys,
					HashCompared: v.HashCompared}
			}
		})
	}
	for _, d := range chain.Retain(l.Objects, l.Claims, verified, k.flags.retention, k.clock.Now()) {
		if err := k.store.Delete(ctx, d.Object.Name()); err != nil {
			return err
		}
		k.log.Info("Deleted backup of etcd that need not be kept", "object", d.Object.String(), "reason", d.Reason)
		l.Objects = slices.DeleteFunc(l.Objects, func(o chain.Object) bool { return o.Name() == d.Object.Name() })
	}
	k.count(l)
	return nil
}

// verify restores the newest chain as a test. When that fails a full snapshot is taken, so that there is a good one.
func (k *Keeper) verify(ctx context.Context) error {
	l, err := k.store.List(ctx)
	if err != nil {
		return err
	}
	c, ok := l.Newest()
	if !ok {
		return errors.New("there is no chain to verify")
	}
	v, err := verify.Chain(ctx, c, verify.Options{
		Store: k.store, Identity: k.flags.Store.Identity, TempDir: k.flags.tempDir, Clock: k.clock, Progress: io.Discard,
		Expected: k.hash(ctx, c.Last()),
	})
	outcome := &etcdbackup.Verification{Time: k.clock.Now().UTC(), Revision: c.Last()}
	if err == nil {
		outcome.Keys, outcome.HashCompared = v.Keys, v.HashCompared
		err = k.store.SetVerified(ctx, *v)
	} else if ctx.Err() == nil {
		outcome.Error = err.Error()
		if _, again := k.taker.Snapshot(ctx, chain.Full); again != nil {
			err = errors.Join(err, fmt.Errorf("take a full snapshot instead: %w", again))
		}
	}
	k.taker.Report("verification", err, func(s *etcdbackup.Status) { s.LastVerification = outcome })
	return err
}

// hash reads the checksum of etcd at a revision; nil if it has been compacted.
func (k *Keeper) hash(ctx context.Context, revision int64) *archive.Hash {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	h, err := k.etcd.HashKV(ctx, k.etcd.Endpoints()[0], revision)
	if err != nil {
		return nil
	}
	return &archive.Hash{Revision: revision, CompactRevision: h.CompactRevision, Hash: h.Hash}
}
