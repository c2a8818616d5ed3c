package keeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	clientv3 "go.etcd.io/etcd/client/v3"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/maintain"
	"hortus.dev/hortus/internal/etcdbackup/service"
	"hortus.dev/hortus/internal/etcdbackup/snapshot"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

// IdleGC keeps the heap close to the memory in use: the process is idle most of the time, and there is one per Shoot.
const IdleGC = 25

// StoreFlags are the location of backups and their owner.
type StoreFlags struct {
	Dir, Prefix, Identity, Holder string
	Epoch                         int64
}

// Add defines the flags of the location.
func (f *StoreFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Dir, "store-credentials", "/etc/etcd-backup/store",
		"folder with the files of the provider's Secret")
	flags.StringVar(&f.Prefix, "prefix", "", "prefix of all objects, for example shoot--dev--a--uid/etcd-main")
	flags.StringVar(&f.Identity, "identity", "", "identity that objects must have; default the prefix")
}

// AddOwner defines the flags of the owner.
func (f *StoreFlags) AddOwner(flags *pflag.FlagSet) {
	flags.Int64Var(&f.Epoch, "epoch", 1, "ownership epoch; of two owners the one with the lower epoch stops writing")
	flags.StringVar(&f.Holder, "holder", "", "name of the owner, the same for all members, for example the seed; "+
		"of two owners with the same epoch only the first may write")
}

// Open connects to the store.
func (f *StoreFlags) Open() (*store.Store, error) {
	if f.Identity == "" {
		f.Identity = f.Prefix
	}
	return store.Open(f.Dir, f.Prefix, clock.RealClock{})
}

// Nonce distinguishes the claims of this process from those of others.
func Nonce() string { return rand.Text() }

// Flags configure the backups.
type Flags struct {
	Store                    *StoreFlags
	full, verify, defragment string
	scheduleFile             string
	deltaPeriod              time.Duration
	deltaBytes               int
	retention                chain.Retention
	limits                   maintain.Limits
	tempDir                  string
}

// Add defines the flags.
func (f *Flags) Add(flags *pflag.FlagSet) {
	f.retention, f.limits = chain.DefaultRetention(), maintain.DefaultLimits()
	flags.StringVar(&f.full, "full-schedule", "",
		"cron schedule of full snapshots, in UTC; default daily at a time that depends on the prefix")
	flags.StringVar(&f.scheduleFile, "schedule-file", "",
		"file with the schedule of full snapshots, read again when it changes; without a valid one --full-schedule applies")
	flags.DurationVar(&f.deltaPeriod, "delta-period", time.Minute, "longest time that a change waits for its delta")
	flags.IntVar(&f.deltaBytes, "delta-bytes", 10<<20, "size of changes after which a delta is written at once")
	flags.DurationVar(&f.retention.Full, "keep-full", f.retention.Full, "how long full snapshots are kept")
	flags.DurationVar(&f.retention.Weekly, "keep-weekly", f.retention.Weekly, "how long one full snapshot a week is kept")
	flags.DurationVar(&f.retention.Deltas, "keep-deltas", f.retention.Deltas,
		"how long deltas are kept: how far back any revision can be restored")
	flags.IntVar(&f.retention.Chains, "keep-chains", f.retention.Chains,
		"number of newest chains that are kept whatever their age")
	flags.StringVar(&f.verify, "verify-schedule", "",
		"cron schedule of verifications, in UTC; default weekly at a time that depends on the prefix")
	flags.StringVar(&f.tempDir, "temp-dir", "", "folder for the database file of a verification; default the system's")
	flags.StringVar(&f.defragment, "defragment-schedule", "",
		"cron schedule of times for a defragmentation if it is needed, in UTC; default daily at a time that depends on the prefix")
	flags.Float64Var(&f.limits.UnusedRatio, "defragment-unused-ratio", f.limits.UnusedRatio,
		"unused part of the database file that is worth a defragmentation (0 to 1)")
	flags.Int64Var(&f.limits.MinBytes, "defragment-min-bytes", f.limits.MinBytes,
		"size of the database file below which it is not defragmented")
}

// Validate returns an error for the first invalid flag.
func (f *Flags) Validate() error {
	switch {
	case f.Store.Epoch < 1:
		return fmt.Errorf("--epoch: must be at least 1: %d", f.Store.Epoch)
	case f.Store.Prefix == "":
		return errors.New("--prefix: required value")
	case f.deltaPeriod <= 0:
		return fmt.Errorf("--delta-period: must be positive: %s", f.deltaPeriod)
	case f.deltaBytes < 1:
		return fmt.Errorf("--delta-bytes: must be at least 1: %d", f.deltaBytes)
	case f.limits.UnusedRatio <= 0 || f.limits.UnusedRatio > 1:
		return fmt.Errorf("--defragment-unused-ratio: invalid value: %g (above 0, at most 1)", f.limits.UnusedRatio)
	}
	if _, err := f.schedules(); err != nil {
		return err
	}
	return f.retention.Validate()
}

// New returns the keeper of the backups of an etcd. It registers its metrics.
func (f *Flags) New(
	etcd *clientv3.Client, s *store.Store, log logr.Logger, registry prometheus.Registerer,
) (*Keeper, error) {
	schedules, err := f.schedules()
	if err != nil {
		return nil, err
	}
	if f.scheduleFile != "" {
		schedules.full = &fileSchedule{path: f.scheduleFile, otherwise: schedules.full, clock: clock.RealClock{}, log: log}
	}
	k := &Keeper{etcd: etcd, store: s, clock: clock.RealClock{}, log: log, flags: f, schedules: schedules,
		stored: make(chan struct{}, 1)}
	k.taker = &snapshot.Taker{
		Etcd: etcd, Store: s, Clock: clock.RealClock{}, Log: log,
		Options: snapshot.Options{
			Epoch: f.Store.Epoch, Holder: f.Store.Holder, Identity: f.Store.Identity, Nonce: Nonce(),
			Schedule: schedules.full, DeltaPeriod: f.deltaPeriod, DeltaBytes: f.deltaBytes,
		},
	}
	metrics := service.NewMetrics(registry, k.taker.Status)
	k.taker.Failed = metrics.Failed
	k.taker.Stored = func(o *chain.Object, l *store.Listing) {
		if o != nil {
			metrics.Stored(*o)
		}
		k.changed(o, l)
	}
	k.taker.Report("start", nil, func(st *etcdbackup.Status) {
		st.Phase, st.Epoch, st.Holder = etcdbackup.PhaseStarting, f.Store.Epoch, f.Store.Holder
		st.Location, st.Prefix = s.Location(), f.Store.Prefix
	})
	return k, nil
}

// Run takes, checks and deletes backups and maintains etcd until ctx ends. Etcd has to be running.
func (k *Keeper) Run(ctx context.Context) {
	debug.SetGCPercent(IdleGC)
	var group errgroup.Group
	group.Go(func() error { k.taker.Run(ctx); return nil })
	group.Go(func() error { k.run(ctx); return nil })
	_ = group.Wait()
}

// Status of the backups.
func (k *Keeper) Status() etcdbackup.Status { return k.taker.Status() }

// Snapshot waits until everything that etcd holds is in the store.
func (k *Keeper) Snapshot(ctx context.Context, kind chain.Kind) (etcdbackup.Snapshot, error) {
	return k.taker.Snapshot(ctx, kind)
}

// schedules are the schedules of periodic tasks.
type schedules struct {
	full, verify, defragment cron.Schedule
}

// schedules parses the flags. Defaults are spread over day and week by the prefix, so that the Shoots of a seed do not
// all do the same at once.
func (f *Flags) schedules() (s schedules, err error) {
	h := fnv.New32a()
	h.Write([]byte(f.Store.Prefix))
	spread := h.Sum32()
	minute, hour, day := spread%60, spread/60%24, spread/60/24%7
	for _, each := range []struct {
		flag, value, otherwise string
		into                   *cron.Schedule
	}{
		{"--full-schedule", f.full, fmt.Sprintf("%d %d * * *", minute, hour), &s.full},
		{"--verify-schedule", f.verify, fmt.Sprintf("%d %d * * %d", (minute+30)%60, (hour+1)%24, day), &s.verify},
		{"--defragment-schedule", f.defragment, fmt.Sprintf("%d %d * * *", minute, (hour+2)%24), &s.defragment},
	} {
		if each.value == "" {
			each.value = each.otherwise
		}
		parsed, err := parseSchedule(each.value)
		if err != nil {
			return s, fmt.Errorf("%s: invalid value: %q: %w", each.flag, each.value, err)
		}
		*each.into = parsed
	}
	return s, nil
}
