package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

const (
	// storeTimeout bounds how long a start waits for a store that does not answer.
	storeTimeout = 15 * time.Second
	// deepAfter is the number of starts without a healthy etcd after which the whole data directory is read.
	deepAfter = 2
)

// DefaultRevisionBump is more revisions than clients can have seen since the last delta.
const DefaultRevisionBump = 1_000_000

// Store is the part of the object store that a restore needs.
type Store interface {
	Source
	List(context.Context) (store.Listing, error)
	Claim(context.Context, chain.Claim) (chain.Claim, error)
	SetBranch(context.Context, chain.Branch) error
	Location() string
}

// Options of a restore.
type Options struct {
	DataDir string
	// Name, InitialCluster, InitialClusterToken and InitialAdvertisePeerURLs are etcd's flags.
	Name, InitialCluster, InitialClusterToken string
	InitialAdvertisePeerURLs                  []string
	// Epoch and Holder of the owner; Identity that objects must have.
	Epoch            int64
	Holder, Identity string
	// Target to restore; the zero value is the newest point, and only if the data directory is not good enough.
	Target chain.Target
	// ID of a request to restore etcd to Target: it is carried out once, whatever the data directory contains, and all
	// later backups are abandoned. Without an ID, the target only fills this data directory.
	ID string
	// WholeCluster says that no other member has data.
	WholeCluster bool
	// RevisionBump is added to the highest revision that clients may have seen.
	RevisionBump int64
	// Nonce distinguishes the claims of this process from those of others.
	Nonce string

	Store    Store
	Clock    clock.PassiveClock
	Progress Progress

	// Measure returns the revision of the data directory with its log applied. An error that wraps ErrBroken means
	// that etcd cannot start with it. Default MeasureHere.
	Measure func(context.Context, Options) (int64, error)
	// stop is called before every step that changes something on disk; tests crash there.
	stop func(step string) error
}

// Result is the decision of Run and its outcome.
type Result struct {
	Decision Decision
	// Built is the restored database, nil if nothing was restored.
	Built *Built
}

// NotOwnerError means that another holder owns the backups.
type NotOwnerError struct {
	// Claim of the owner.
	Claim  chain.Claim
	Reason string
}

func (e *NotOwnerError) Error() string { return e.Reason }

// Validate returns an error for the first invalid option.
func (o Options) Validate() error {
	urls, err := types.NewURLsMap(o.InitialCluster)
	if err != nil {
		return fmt.Errorf("--initial-cluster: invalid value: %q: %w", o.InitialCluster, err)
	}
	if _, ok := urls[o.Name]; !ok {
		return fmt.Errorf("--name: not in --initial-cluster: %q", o.Name)
	}
	if _, err := types.NewURLs(o.InitialAdvertisePeerURLs); err != nil {
		return fmt.Errorf("--initial-advertise-peer-urls: invalid value: %w", err)
	}
	switch {
	case o.DataDir == "":
		return errors.New("--data-dir: required value")
	case o.Epoch < 1:
		return fmt.Errorf("--epoch: must be at least 1: %d", o.Epoch)
	case o.RevisionBump < 1:
		return fmt.Errorf("--revision-bump: must be at least 1: %d", o.RevisionBump)
	case o.Target.Revision < 0:
		return fmt.Errorf("--until-revision: must not be negative: %d", o.Target.Revision)
	case o.Target.Revision > 0 && !o.Target.Time.IsZero():
		return errors.New("--until-revision and --until-time exclude each other")
	case o.ID != "" && !chain.BranchID.MatchString(o.ID):
		return fmt.Errorf("--restore-id: invalid value: %q (letters, digits, '.', '_' and '-', at most 63)", o.ID)
	case o.ID != "" && o.Target == chain.Target{}:
		return errors.New("--restore-id: needs --until-revision or --until-time")
	}
	return nil
}

// Run makes the data directory ready for etcd, or fails. It may be stopped at any point and run again.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	if o.Measure == nil {
		o.Measure = MeasureHere
	}
	if o.stop == nil {
		o.stop = func(string) error { return nil }
	}
	m, err := readMarker(o.DataDir)
	if err != nil {
		return Result{}, err
	}
	facts, listing, err := gather(ctx, o, m)
	if err != nil {
		return Result{}, err
	}
	d := Decide(facts)
	if d.Action == Measure {
		o.Progress.Printf("%s; starting etcd to read its log", d.Reason)
		switch facts.DataRevision, err = o.Measure(ctx, o); {
		case errors.Is(err, ErrBroken):
			facts.Data, facts.DataProblem = DataBroken, err.Error()
		case err != nil:
			return Result{}, err
		}
		facts.DataExact = true
		d = Decide(facts)
	}
	o.Progress.Printf("%s: %s", d.Action, d.Reason)
	result := Result{Decision: d}
	if d.Action == Fail {
		if notOwner(facts).Action != "" {
			return result, &NotOwnerError{Claim: *facts.NewestClaim, Reason: d.Reason}
		}
		return result, errors.New(d.Reason)
	}
	if err := claim(ctx, o, facts, listing); err != nil {
		return result, err
	}
	if d.Action == Restore {
		result.Built, err = restore(ctx, o, m, facts.Forced, listing)
		return result, err
	}
	if err := o.stop("mark"); err != nil {
		return result, err
	}
	m.Epoch, m.Starts = o.Epoch, m.Starts+1
	if b, ok := chain.NewestBranch(listing.Branches); ok && d.Action == StartEmpty {
		m.Branch = b.ID
	}
	return result, writeMarker(o.DataDir, m)
}

// gather collects the facts about the data directory and the store.
func gather(ctx context.Context, o Options, m marker) (Facts, store.Listing, error) {
	cluster, _ := types.NewURLsMap(o.InitialCluster)
	f := Facts{Epoch: o.Epoch, Holder: o.Holder, DataEpoch: m.Epoch, Members: len(cluster), WholeCluster: o.WholeCluster}
	target := describeTarget(o.Target)
	f.Forced = o.ID == "" && target != "" && target != m.Target || o.ID != "" && !slices.Contains(m.Requests, o.ID)
	var err error
	f.Data, f.DataProblem, f.DataRevision, err = inspect(o.DataDir, m.Starts >= deepAfter)
	if err != nil {
		return f, store.Listing{}, err
	}
	listCtx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	listing, err := o.Store.List(listCtx)
	if err != nil {
		f.Store, f.StoreProblem = StoreUnreachable, err.Error()
		return f, listing, ctx.Err()
	}
	if c, ok := chain.Newest(listing.Claims); ok {
		f.NewestClaim = &c
	}
	if b, ok := chain.NewestBranch(listing.Branches); ok {
		f.Abandoned = f.Data != DataMissing && b.ID != m.Branch
	}
	// Another member, or this one on another volume, may have carried out the request already.
	done := func(b chain.Branch) bool { return b.ID == o.ID }
	f.Forced = f.Forced && !slices.ContainsFunc(listing.Branches, done)
	f.Store = StoreEmpty
	objects, now := source(o, f.Forced, listing)
	if c, ok := chain.Select(chain.Build(objects), now); ok {
		f.Store, f.BackupRevision, f.BackupEpoch = StoreHasChains, c.Last(), c.Full.Epoch
	} else if len(listing.Objects) > 0 {
		// Only deltas, or no chain that reaches the target: since backups exist, an empty start is not allowed.
		f.Store, f.StoreProblem = StoreUnreachable, "it has backups, but none that can be restored"
	}
	return f, listing, nil
}

// source returns the objects to restore from, and the target.
func source(o Options, forced bool, l store.Listing) ([]chain.Object, chain.Target) {
	if forced {
		owned, _ := chain.Owned(l.Objects, l.Claims)
		return owned, o.Target
	}
	return l.Current()
}

func describeTarget(t chain.Target) string {
	switch {
	case t.Revision > 0:
		return fmt.Sprintf("revision %d", t.Revision)
	case !t.Time.IsZero():
		return t.Time.UTC().Format(time.RFC3339Nano)
	}
	return ""
}

// claim claims the epoch, unless the store cannot be reached and the data is intact.
func claim(ctx context.Context, o Options, f Facts, l store.Listing) error {
	if f.Store == StoreUnreachable || f.NewestClaim != nil && f.NewestClaim.Epoch == o.Epoch {
		return nil
	}
	c := chain.Claim{Epoch: o.Epoch, Holder: o.Holder, Time: o.Clock.Now().UTC(), Nonce: o.Nonce,
		Revision: ContinuesFrom(l)}
	stored, err := o.Store.Claim(ctx, c)
	switch {
	case err != nil && f.Data == DataFine:
		o.Progress.Printf("Epoch %d is not claimed yet: %v", o.Epoch, err)
		return nil
	case err != nil:
		return err
	case stored.Holder != o.Holder:
		return &NotOwnerError{Claim: stored,
			Reason: fmt.Sprintf("epoch %d belongs to %q, not to %q", o.Epoch, stored.Holder, o.Holder)}
	}
	return nil
}

// ContinuesFrom is the revision that a new owner continues from: the last one of the best chain at present. Objects
// that older owners write later are ignored.
func ContinuesFrom(l store.Listing) *int64 {
	revision := int64(0)
	if c, ok := l.Newest(); ok {
		revision = c.Last()
	}
	return &revision
}

// restore builds a data directory next to the old one and swaps them.
func restore(ctx context.Context, o Options, m marker, forced bool, l store.Listing) (*Built, error) {
	started := o.Clock.Now()
	work := workPath(o.DataDir)
	if err := o.stop("clean"); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o700)); err != nil {
		return nil, fmt.Errorf("prepare folder for the restore: %w", err)
	}
	if err := o.stop("build"); err != nil {
		return nil, err
	}
	objects, target := source(o, forced, l)
	file, fresh := filepath.Join(work, "snapshot.db"), filepath.Join(work, "data")
	built, err := Build(ctx, o.Store, objects, target, o.Identity, file, o.Progress)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	if err := o.stop("data directory"); err != nil {
		return nil, err
	}
	bump := o.RevisionBump
	for _, object := range l.Objects { // Revisions that clients may have seen, even if they are not restored.
		bump = max(bump, object.Last-built.Revision+o.RevisionBump)
	}
	for _, b := range l.Branches {
		bump = max(bump, b.Begins-built.Revision+o.RevisionBump)
	}
	o.Progress.Printf("Making the data directory at revision %d, moved ahead by %d", built.Revision, bump)
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                o.Name,
		OutputDataDir:       fresh,
		PeerURLs:            o.InitialAdvertisePeerURLs,
		InitialCluster:      o.InitialCluster,
		InitialClusterToken: o.InitialClusterToken,
		SkipHashCheck:       true, // The deltas have changed the hash; the hashes of the objects were checked.
		RevisionBump:        uint64(bump),
		MarkCompacted:       true,
	})
	if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := os.Remove(file); err != nil {
		return nil, fmt.Errorf("remove snapshot file: %w", err)
	}
	if err := syncTree(fresh); err != nil {
		return nil, fmt.Errorf("sync data directory: %w", err)
	}
	next := marker{Epoch: o.Epoch, Starts: 1, Requests: m.Requests}
	if b, ok := chain.NewestBranch(l.Branches); ok {
		next.Branch = b.ID
	}
	if forced {
		next.Target = describeTarget(o.Target)
	}
	if o.ID != "" {
		next.Requests = append(slices.Clone(next.Requests), o.ID)
	}
	if forced && o.ID != "" {
		if err := o.stop("branch"); err != nil {
			return nil, err
		}
		next.Branch = o.ID
		// All later revisions are after built.Revision+bump, and all existing ones before.
		b := chain.Branch{
			ID: o.ID, Epoch: o.Epoch, Time: o.Clock.Now().UTC(), Revision: built.Revision, Begins: built.Revision + bump,
		}
		if err := o.Store.SetBranch(ctx, b); err != nil {
			return nil, err
		}
	}
	if err := swap(o, next, fresh); err != nil {
		return nil, err
	}
	o.Progress.Printf("Restored revision %d from %s and %d deltas (%d events) in %s",
		built.Revision, built.Chain.Full, len(built.Chain.Deltas), built.Events,
		o.Clock.Since(started).Round(time.Millisecond))
	return built, os.RemoveAll(work)
}

// swap puts the fresh directory in place. A crash in between leaves the data directory missing, never incomplete.
func swap(o Options, next marker, fresh string) error {
	previous, parent := previousPath(o.DataDir), filepath.Dir(o.DataDir)
	if _, err := os.Stat(o.DataDir); err == nil {
		if err := o.stop("move aside"); err != nil {
			return err
		}
		// One old directory is kept: a volume has room for two or three, and operators may want to inspect the last one.
		if err := errors.Join(os.RemoveAll(previous), os.Rename(o.DataDir, previous), syncDir(parent)); err != nil {
			return fmt.Errorf("move the old data directory aside: %w", err)
		}
		o.Progress.Printf("The old data directory is kept at %s", previous)
	}
	if err := o.stop("mark"); err != nil {
		return err
	}
	if err := writeMarker(o.DataDir, next); err != nil {
		return err
	}
	if err := o.stop("rename"); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(fresh, o.DataDir), syncDir(parent)); err != nil {
		return fmt.Errorf("put the data directory in place: %w", err)
	}
	return nil
}

// syncTree makes every file and folder durable.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path) // Opening for reading and syncing works for files as well.
	})
}
