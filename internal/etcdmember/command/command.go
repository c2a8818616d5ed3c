// Package command is `hortus etcd`.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/keeper"
	"hortus.dev/hortus/internal/etcdbackup/restore"
	"hortus.dev/hortus/internal/etcdbackup/service"
	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/etcdmember"
	"hortus.dev/hortus/internal/etcdmember/configuration"
	"hortus.dev/hortus/internal/etcdmember/fence"
	"hortus.dev/hortus/internal/timeslice"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// drainTimeout bounds how long etcd continues to run on shutdown, so that the changes that are not in the backups yet
// are stored.
const drainTimeout = 2 * time.Second

// NewCommand returns `etcd` with its subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Run an etcd with its backups",
	}
	run, _ := newRunCommand()
	cmd.AddCommand(run)
	return cmd
}

// runFlags are the flags of run.
type runFlags struct {
	program, certificates, flagsFile, endpoint, metrics, clientAddress, forwardAddress, listen, health string
	store                                                                                              keeper.StoreFlags
	backups                                                                                            keeper.Flags
	revisionBump                                                                                       int64
	fenceTime                                                                                          time.Duration
	standby                                                                                            bool
	terminationLog                                                                                     string
	restoreID, until, membersFile                                                                      string
	target                                                                                             chain.Target
	// monotonic is the clock of fences; [fence.Monotonic] outside tests.
	monotonic func() time.Duration
}

func newRunCommand() (*cobra.Command, *runFlags) {
	f := &runFlags{monotonic: fence.Monotonic}
	cmd := &cobra.Command{
		Use:   "run [flags] -- [etcd's flags]",
		Short: "Restore etcd if that is needed, run it, and take its backups",
		Long: `Restore etcd if that is needed, run it, and take its backups.

The data directory is restored if it is missing, broken, older than the backups, or left behind by an older epoch. Then
etcd is started as a child process with the flags after "--", which have to be written as --name=value. When a CA bundle
or the file with further flags changes, etcd is restarted in place; clients that connect meanwhile wait. Without
--store-credentials there are neither backups nor restores.`,
		Args: cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.program, "program", "/usr/local/bin/etcd", "etcd")
	flags.StringVar(&f.certificates, "certificates", "/var/etcd/ssl",
		"folder with ca.crt, server.crt, server.key, client.crt and client.key")
	flags.StringVar(&f.flagsFile, "flags-file", "",
		"file with further flags of etcd, one per line; etcd is restarted when it changes")
	flags.StringVar(&f.membersFile, "members-file", "",
		"file with the wanted members of the cluster, one per line: name, and URLs for peers, for clients and of the process; "+
			"the first one may begin the cluster. Default there is one member")
	flags.StringVar(&f.metrics, "metrics-url", "http://127.0.0.1:2381",
		"where etcd serves /readyz and /livez in plain text")
	flags.StringVar(&f.endpoint, "etcd-endpoint", "https://localhost:2379", "client URL of etcd")
	flags.StringVar(&f.clientAddress, "client-address", "",
		"address on which etcd serves clients: those that connect while etcd is restarted wait; default they are refused")
	flags.StringVar(&f.forwardAddress, "forward-address", "127.0.0.1:2384",
		"address on which only etcd listens, for clients that have waited")
	flags.StringVar(&f.listen, "listen-address", fmt.Sprintf(":%d", etcdbackup.Port),
		"address for status, snapshots and metrics, with client certificates")
	flags.StringVar(&f.health, "health-address", ":2383", "address for /healthz and /readyz in plain text")
	flags.Int64Var(&f.revisionBump, "revision-bump", restore.DefaultRevisionBump,
		"how far a restore moves revisions ahead, so that clients never see them go back")
	flags.DurationVar(&f.fenceTime, "fence-time", 5*time.Minute,
		"how long etcd continues to run when neither the bucket nor the garden confirms the epoch")
	flags.BoolVar(&f.standby, "standby", false, "start etcd only on request, with the epoch and the holder of the request")
	flags.StringVar(&f.restoreID, "restore-id", "", "take etcd back to --until-revision or --until-time, once for each ID")
	flags.Int64Var(&f.target.Revision, "until-revision", 0, "revision for --restore-id")
	flags.StringVar(&f.until, "until-time", "", "time for --restore-id: the newest backup from before (RFC 3339)")
	flags.StringVar(&f.terminationLog, "termination-log", "/dev/termination-log",
		"file for the reason why etcd was stopped for good; empty for none")
	f.store.Add(flags)
	flags.Lookup("store-credentials").DefValue = ""
	f.store.Dir = ""
	f.store.AddOwner(flags)
	f.backups.Store = &f.store
	f.backups.Add(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args) }
	return cmd, f
}

// parts are the parts of a process.
type parts struct {
	flags  *runFlags
	args   etcdArgs
	files  *certs.Files
	client *certs.Files
	store  *store.Store // Nil without backups.
	// members is nil before the first start, and if there is one member.
	members atomic.Pointer[members]
	etcd    *clientv3.Client
	member  *etcdmember.Member
	guard   *fence.Guard
	// keeper is nil without backups, and before etcd was ready for the first time.
	keeper   atomic.Pointer[keeper.Keeper]
	registry *prometheus.Registry
	// ready is closed when etcd has become ready for the first time, active when this process no longer stands by,
	// superseded when another owner has taken over.
	ready, active, superseded chan struct{}
	activation                sync.Mutex
	bucketPeriod              time.Duration
	log                       logr.Logger
}

func (f *runFlags) run(ctx context.Context, args []string) error {
	debug.SetGCPercent(keeper.IdleGC)
	if err := timeslice.Short(); err != nil { // For etcd, which inherits it.
		klog.Background().WithName("etcd").Error(err, "Writes may wait for busy control planes of the same node")
	}
	p, err := f.assemble(args)
	if err != nil {
		return err
	}
	return p.run(ctx)
}

func (f *runFlags) assemble(args []string) (*parts, error) {
	p := &parts{flags: f, registry: prometheus.NewRegistry(), ready: make(chan struct{}), active: make(chan struct{}),
		superseded: make(chan struct{}), bucketPeriod: bucketPeriod, log: klog.Background().WithName("etcd")}
	var err error
	if p.args, err = parseArgs(args); err != nil {
		return nil, err
	}
	if f.fenceTime <= 0 {
		return nil, fmt.Errorf("--fence-time: must be positive: %s", f.fenceTime)
	}
	if f.until != "" {
		if f.target.Time, err = time.Parse(time.RFC3339, f.until); err != nil {
			return nil, fmt.Errorf("--until-time: invalid value: %q (RFC 3339, such as 2026-01-31T15:04:05Z)", f.until)
		}
	}
	in := func(name string) string { return filepath.Join(f.certificates, name) }
	p.files = &certs.Files{CA: in(configuration.CA), Cert: in(configuration.ServerCert), Key: in(configuration.ServerKey)}
	p.client = &certs.Files{CA: p.files.CA, Cert: in(configuration.ClientCert), Key: in(configuration.ClientKey)}
	if err := p.files.Load(); err != nil {
		return nil, err
	}
	if err := p.own(); err != nil {
		return nil, err
	}
	p.member = &etcdmember.Member{
		Program: f.program, Args: args, DataDir: p.args.dataDir,
		Configuration: configuration.Source{Dir: f.certificates, FlagsFile: f.flagsFile},
		MetricsURL:    f.metrics, ClientAddress: f.clientAddress, ForwardAddress: f.forwardAddress,
		Guard: p.guard, Superseded: p.end, Prepare: p.prepare, Settle: p.settle, Turn: p.turn,
		Started: func() { close(p.ready) }, Healthy: p.healthy,
		Reloaded: func() {
			p.files.Recheck()
			p.client.Recheck()
		},
		Clock: clock.RealClock{}, Log: p.log, Metrics: etcdmember.NewMetrics(p.registry),
	}
	if f.store.Dir == "" {
		return p, nil
	}
	if err := f.backups.Validate(); err != nil {
		return nil, err
	}
	if p.store, err = f.store.Open(); err != nil {
		return nil, err
	}
	if p.etcd, err = keeper.Connect(f.endpoint, p.client); err != nil {
		return nil, err
	}
	return p, nil
}

// run runs everything until ctx ends. Etcd ends after the backups, which store its last changes first.
func (p *parts) run(ctx context.Context) error {
	if p.etcd != nil {
		defer p.etcd.Close()
	}
	etcdCtx, stopEtcd := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEtcd()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if p.standBy(ctx) {
			return p.member.Run(etcdCtx)
		}
		return nil
	})
	group.Go(func() error {
		defer stopEtcd()
		return p.backUp(ctx)
	})
	if p.store != nil {
		group.Go(func() error {
			p.watchBucket(ctx)
			return nil
		})
	}
	group.Go(func() error {
		return service.Serve(ctx, p.flags.listen, p.flags.health, p.files,
			service.Handler(p.handler(), p.registry, p.handler()), service.Probes{Live: p.member.Live, Ready: p.member.Ready})
	})
	return group.Wait()
}

// backUp takes backups from the first time that etcd is ready until ctx ends or another owner has taken over.
func (p *parts) backUp(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.ready:
	}
	if p.store != nil {
		owner := p.guard.Owner()
		p.flags.store.Epoch, p.flags.store.Holder = owner.Epoch, owner.Holder
		k, err := p.flags.backups.New(p.etcd, p.store, p.log.WithName("backup"), p.registry)
		if err != nil {
			return err
		}
		p.keeper.Store(k)
		keeping, stop := context.WithCancel(ctx)
		defer stop()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			k.Run(keeping)
		}()
		select {
		case <-ctx.Done():
			select {
			case <-drained:
			case <-time.After(drainTimeout):
			}
		case <-p.superseded: // The store refuses writes from now on.
			stop()
			<-drained
		}
	}
	<-ctx.Done()
	return nil
}

// restore makes the data directory ready.
func (p *parts) restore(ctx context.Context, initialCluster string) error {
	if p.store == nil {
		return nil
	}
	debug.SetGCPercent(restore.GCPercent)
	defer func() {
		debug.SetGCPercent(keeper.IdleGC)
		debug.FreeOSMemory()
	}()
	owner := p.guard.Owner()
	result, err := restore.Run(ctx, restore.Options{
		DataDir: p.args.dataDir, Name: p.args.name, InitialCluster: initialCluster,
		InitialClusterToken: p.args.token, InitialAdvertisePeerURLs: p.args.peerURLs,
		Epoch: owner.Epoch, Holder: owner.Holder, Identity: p.flags.store.Identity,
		ID: p.flags.restoreID, Target: p.flags.target,
		RevisionBump: p.flags.revisionBump, Nonce: keeper.Nonce(),
		Store: p.store, Clock: clock.RealClock{}, Progress: restore.Progress{Out: os.Stdout, Clock: clock.RealClock{}},
		Measure: restore.MeasureInChild,
	})
	var other *restore.NotOwnerError
	if errors.As(err, &other) {
		return errors.Join(err, p.guard.Confirm(fence.Bucket, fence.Owner{
			Epoch: other.Claim.Epoch, Holder: other.Claim.Holder,
		}, p.guard.Now()))
	}
	if built := result.Built; built != nil {
		newest := built.Chain.Full
		if n := len(built.Chain.Deltas); n > 0 {
			newest = built.Chain.Deltas[n-1]
		}
		p.member.Restored(etcdbackup.Restored{Revision: built.Revision, Stored: newest.Created})
	}
	if err == nil {
		p.readBucket(ctx) // The claim that was just made lets etcd start.
	}
	return err
}

// healthy records that etcd has come up with the data directory, which spares the next start a deep check.
func (p *parts) healthy() {
	if err := restore.MarkHealthy(p.args.dataDir); err != nil {
		p.log.Info("Cannot note that etcd is healthy", "error", err.Error())
	}
}

// etcdArgs are the flags of etcd that matter here.
type etcdArgs struct {
	dataDir, name, initialCluster, token string
	peerURLs                             []string
}

func parseArgs(args []string) (etcdArgs, error) {
	a := etcdArgs{name: "default", token: "etcd-cluster"}
	for _, arg := range args {
		name, value, found := strings.Cut(arg, "=")
		if !found || !strings.HasPrefix(name, "--") {
			return a, fmt.Errorf("flag of etcd: invalid value: %q (--name=value)", arg)
		}
		switch name {
		case "--data-dir":
			a.dataDir = value
		case "--name":
			a.name = value
		case "--initial-cluster":
			a.initialCluster = value
		case "--initial-cluster-token":
			a.token = value
		case "--initial-advertise-peer-urls":
			a.peerURLs = strings.Split(value, ",")
		}
	}
	switch "" {
	case a.dataDir:
		return a, errors.New("flag of etcd: --data-dir: required value")
	case strings.Join(a.peerURLs, ""):
		return a, errors.New("flag of etcd: --initial-advertise-peer-urls: required value")
	}
	if a.initialCluster == "" {
		a.initialCluster = a.name + "=" + a.peerURLs[0]
	}
	return a, nil
}
