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
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/keeper"
	"hortus.dev/hortus/internal/etcdbackup/restore"
	"hortus.dev/hortus/internal/etcdbackup/service"
	"hortus.dev/hortus/internal/etcdbackup/store"
	"hortus.dev/hortus/internal/etcdmember"
	"hortus.dev/hortus/internal/etcdmember/configuration"
	"hortus.dev/hortus/internal/tunnel/certs"
)

// drainTimeout bounds how long etcd goes on after the end was requested, so that what is not in the backups yet is stored.
const drainTimeout = 2 * time.Second

// NewCommand returns `etcd` with its subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Run an etcd with its backups",
	}
	cmd.AddCommand(newRunCommand())
	return cmd
}

// runFlags are those of run.
type runFlags struct {
	program, certificates, flagsFile, endpoint, metrics, clientAddress, forwardAddress, listen, health string
	store                                                                                              keeper.StoreFlags
	backups                                                                                            keeper.Flags
	revisionBump                                                                                       int64
}

func newRunCommand() *cobra.Command {
	f := &runFlags{}
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
	flags.StringVar(&f.certificates, "certificates", "/var/etcd/ssl", "folder with ca.crt, server.crt, server.key, client.crt and client.key")
	flags.StringVar(&f.flagsFile, "flags-file", "", "file with further flags of etcd, one per line; etcd is restarted when it changes")
	flags.StringVar(&f.metrics, "metrics-url", "http://127.0.0.1:2381", "where etcd serves /readyz and /livez in plain text")
	flags.StringVar(&f.endpoint, "etcd-endpoint", "https://localhost:2379", "client URL of etcd")
	flags.StringVar(&f.clientAddress, "client-address", "",
		"address on which etcd serves clients: those that connect while etcd is restarted wait; default they are refused")
	flags.StringVar(&f.forwardAddress, "forward-address", "127.0.0.1:2384",
		"address on which only etcd listens, for clients that have waited")
	flags.StringVar(&f.listen, "listen-address", fmt.Sprintf(":%d", etcdbackup.Port),
		"address for status, snapshots and metrics, with client certificates")
	flags.StringVar(&f.health, "health-address", ":2383", "address for /healthz in plain text")
	flags.Int64Var(&f.revisionBump, "revision-bump", restore.DefaultRevisionBump,
		"how far a restore moves revisions ahead, so that clients never see them go back")
	f.store.Add(flags)
	flags.Lookup("store-credentials").DefValue = ""
	f.store.Dir = ""
	f.store.AddOwner(flags)
	f.backups.Store = &f.store
	f.backups.Add(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args) }
	return cmd
}

// parts are what a process consists of.
type parts struct {
	flags  *runFlags
	args   etcdArgs
	files  *certs.Files
	store  *store.Store // Nil without backups.
	etcd   *clientv3.Client
	keeper *keeper.Keeper // Nil without backups.
	member *etcdmember.Member
	// ready is closed when etcd has become ready for the first time.
	ready chan struct{}
	log   logr.Logger
}

func (f *runFlags) run(ctx context.Context, args []string) error {
	debug.SetGCPercent(keeper.IdleGC)
	registry := prometheus.NewRegistry()
	p, err := f.assemble(args, registry)
	if err != nil {
		return err
	}
	if p.etcd != nil {
		defer p.etcd.Close()
	}
	return p.run(ctx, registry)
}

func (f *runFlags) assemble(args []string, registry prometheus.Registerer) (*parts, error) {
	p := &parts{flags: f, ready: make(chan struct{}), log: klog.Background().WithName("etcd")}
	var err error
	if p.args, err = parseArgs(args); err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(f.certificates, name) }
	p.files = &certs.Files{CA: in(configuration.CA), Cert: in(configuration.ServerCert), Key: in(configuration.ServerKey)}
	client := &certs.Files{CA: p.files.CA, Cert: in(configuration.ClientCert), Key: in(configuration.ClientKey)}
	if err := p.files.Load(); err != nil {
		return nil, err
	}
	p.member = &etcdmember.Member{
		Program: f.program, Args: args, DataDir: p.args.dataDir,
		Configuration: configuration.Source{Dir: f.certificates, FlagsFile: f.flagsFile},
		MetricsURL:    f.metrics, ClientAddress: f.clientAddress, ForwardAddress: f.forwardAddress,
		Started: func() { close(p.ready) },
		Reloaded: func() {
			p.files.Recheck()
			client.Recheck()
		},
		Clock: clock.RealClock{}, Log: p.log,
	}
	if f.store.Dir == "" {
		return p, nil
	}
	f.backups.DataDir = p.args.dataDir
	if err := f.backups.Validate(); err != nil {
		return nil, err
	}
	if p.store, err = f.store.Open(); err != nil {
		return nil, err
	}
	if p.etcd, err = keeper.Connect(f.endpoint, client); err != nil {
		return nil, err
	}
	if p.keeper, err = f.backups.New(p.etcd, p.store, p.log.WithName("backup"), registry); err != nil {
		return nil, err
	}
	p.member.Prepare = p.restore
	return p, nil
}

// run runs everything until ctx ends. Etcd ends last but one: what it holds is stored first.
func (p *parts) run(ctx context.Context, registry prometheus.Gatherer) error {
	etcdCtx, stopEtcd := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEtcd()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.member.Run(etcdCtx) })
	group.Go(func() error {
		defer stopEtcd()
		select {
		case <-ctx.Done():
			return nil
		case <-p.ready:
		}
		if p.keeper == nil {
			<-ctx.Done()
			return nil
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			p.keeper.Run(ctx)
		}()
		<-ctx.Done()
		select {
		case <-drained:
		case <-time.After(drainTimeout):
		}
		return nil
	})
	group.Go(func() error {
		return service.Serve(ctx, p.flags.listen, p.flags.health, p.files, service.Handler(p.asked(), registry), p.member.Live)
	})
	return group.Wait()
}

// restore makes the data directory ready.
func (p *parts) restore(ctx context.Context) error {
	debug.SetGCPercent(restore.GCPercent)
	defer func() {
		debug.SetGCPercent(keeper.IdleGC)
		debug.FreeOSMemory()
	}()
	_, err := restore.Run(ctx, restore.Options{
		DataDir: p.args.dataDir, Name: p.args.name, InitialCluster: p.args.initialCluster,
		InitialClusterToken: p.args.token, InitialAdvertisePeerURLs: p.args.peerURLs,
		Epoch: p.flags.store.Epoch, Holder: p.flags.store.Holder, Identity: p.flags.store.Identity,
		RevisionBump: p.flags.revisionBump, Nonce: keeper.Nonce(),
		Store: p.store, Clock: clock.RealClock{}, Progress: restore.Progress{Out: os.Stdout, Clock: clock.RealClock{}},
		Measure: restore.MeasureInChild,
	})
	return err
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
	case a.initialCluster:
		return a, errors.New("flag of etcd: --initial-cluster: required value")
	}
	return a, nil
}
