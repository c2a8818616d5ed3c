package command

import (
	"context"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/maintain"
	"hortus.dev/hortus/internal/etcdbackup/service"
	"hortus.dev/hortus/internal/etcdbackup/snapshot"
	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// idleGC keeps the heap close to what is in use: the process is idle most of the time, and there is one per Shoot.
const idleGC = 25

// runFlags are those of run.
type runFlags struct {
	store                            *storeFlags
	etcd                             etcdFlags
	full, verify, defragment         string
	scheduleFile                     string
	deltaPeriod                      time.Duration
	deltaBytes                       int
	retention                        chain.Retention
	limits                           maintain.Limits
	listen, health, tempDir, dataDir string
	files                            certs.Files
}

func newRunCommand() *cobra.Command {
	f := &runFlags{retention: chain.DefaultRetention(), limits: maintain.DefaultLimits()}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Take backups of the etcd member beside this process, while it leads its cluster",
		Args:  cobra.NoArgs,
	}
	f.store = addStoreFlags(cmd)
	f.store.addOwner(cmd)
	f.etcd.add(cmd)
	flags := cmd.Flags()
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
	flags.StringVar(&f.dataDir, "data-dir", "",
		"etcd's data directory, if mounted: a healthy etcd is noted beside it, which spares the next restore a deep check")
	flags.StringVar(&f.listen, "listen-address", fmt.Sprintf(":%d", etcdbackup.Port),
		"address for status, snapshots and metrics, with client certificates")
	flags.StringVar(&f.health, "health-address", ":8080", "address for /healthz in plain text")
	flags.StringVar(&f.files.Cert, "cert-file", "/etc/etcd-backup/server/tls.crt", "PEM certificate of the service")
	flags.StringVar(&f.files.Key, "key-file", "/etc/etcd-backup/server/tls.key", "PEM key of the service")
	flags.StringVar(&f.files.CA, "client-ca-file", "/etc/etcd-backup/server/ca.crt",
		"PEM bundle that clients' certificates are checked with")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) }
	return cmd
}

func (f *runFlags) validate() error {
	switch {
	case f.store.epoch < 1:
		return fmt.Errorf("--epoch: must be at least 1: %d", f.store.epoch)
	case f.deltaPeriod <= 0:
		return fmt.Errorf("--delta-period: must be positive: %s", f.deltaPeriod)
	case f.deltaBytes < 1:
		return fmt.Errorf("--delta-bytes: must be at least 1: %d", f.deltaBytes)
	case f.limits.UnusedRatio <= 0 || f.limits.UnusedRatio > 1:
		return fmt.Errorf("--defragment-unused-ratio: invalid value: %g (above 0, at most 1)", f.limits.UnusedRatio)
	}
	return f.retention.Validate()
}

func (f *runFlags) run(ctx context.Context) error {
	debug.SetGCPercent(idleGC)
	if err := f.validate(); err != nil {
		return err
	}
	schedules, err := f.schedules()
	if err != nil {
		return err
	}
	s, err := f.store.open()
	if err != nil {
		return err
	}
	if err := f.files.Load(); err != nil {
		return err
	}
	etcd, err := f.etcd.connect()
	if err != nil {
		return err
	}
	defer etcd.Close()

	log := klog.Background().WithName("etcd-backup")
	if f.scheduleFile != "" {
		schedules.full = &fileSchedule{path: f.scheduleFile, otherwise: schedules.full, clock: clock.RealClock{}, log: log}
	}
	registry := prometheus.NewRegistry()
	k := &keeper{etcd: etcd, store: s, clock: clock.RealClock{}, log: log, flags: f, schedules: schedules,
		stored: make(chan struct{}, 1)}
	k.taker = &snapshot.Taker{
		Etcd: etcd, Store: s, Clock: clock.RealClock{}, Log: log,
		Options: snapshot.Options{
			Epoch: f.store.epoch, Holder: f.store.holder, Identity: f.store.identity, Nonce: nonce(),
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
	k.taker.Report("start", nil, func(st *etcdbackup.Status) { st.Location, st.Prefix = s.Location(), f.store.prefix })

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { k.taker.Run(ctx); return nil })
	group.Go(func() error { k.run(ctx); return nil })
	group.Go(func() error {
		return service.Serve(ctx, f.listen, f.health, &f.files, service.Handler(k.taker, registry))
	})
	return group.Wait()
}

// schedules of what happens by the clock.
type schedules struct {
	full, verify, defragment cron.Schedule
}

// schedules parses the flags. Defaults are spread over day and week by the prefix, so that the Shoots of a seed do not
// all do the same at once.
func (f *runFlags) schedules() (s schedules, err error) {
	h := fnv.New32a()
	h.Write([]byte(f.store.prefix))
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
