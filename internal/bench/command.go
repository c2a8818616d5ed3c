package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/output"
)

// NewCommand returns 'hortus bench'.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure the API server, the scheduler, or this machine's landscape",
		Long: `Measure the API server, the scheduler, or this machine's landscape.

Without a further command it is the landscape.`,
		Args: cobra.NoArgs,
	}
	landscape := newLandscapeCommand()
	command.RunE = landscape.RunE
	command.Flags().AddFlagSet(landscape.Flags())
	command.AddCommand(newAPICommand(), newSchedulerCommand(), landscape, newNeighboursCommand(), newNoiseCommand())
	return command
}

// defaultTimeout bounds a whole bench without its removal; 5,000 Shoots take two minutes on two busy cores.
const defaultTimeout = 30 * time.Minute

// common flags of the benches that load a server.
type common struct {
	targetFlags
	output  string
	file    string
	timeout time.Duration
}

func (c *common) addFlags(command *cobra.Command) {
	c.access.AddFlags(command.Flags())
	f := command.Flags()
	f.BoolVar(&c.yes, "yes", false, "load the server even if it is neither on this machine nor in its landscape")
	output.AddFlag(command, &c.output, "table", "json")
	f.StringVar(&c.file, "json-file", "", "file to write the report to as JSON, too")
	f.DurationVar(&c.timeout, "timeout", defaultTimeout, "end the bench after this time")
}

func newAPICommand() *cobra.Command {
	var (
		c           common
		o           APIOptions
		pid         int
		metricsPath string
	)
	command := &cobra.Command{
		Use:   "api",
		Short: "Load a running server of the garden's API and measure how it answers",
		Long: `Load a running server of the garden's API and measure how it answers.

Shoots are created, read, listed, patched, watched and deleted in a project of the bench's own. They name a scheduler
that does not exist, so no landscape makes clusters of them. Everything is removed in the end.

Requests are plain JSON, so that two servers of this API can be compared.`,
		Example: `  hortus bench api --shoots 1000,5000 -o json > ours.json
  hortus bench api --kubeconfig other.yaml --direct https://127.0.0.1:8443 --direct-ca ca.crt --pid 4711`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), c.timeout)
			defer cancel()
			target, err := c.target(ctx)
			if err != nil {
				return err
			}
			if o.Usage, err = usageOf(target, pid, metricsPath); err != nil {
				return err
			}
			o.Suffix, o.Progress = suffix(), progressTo(command.ErrOrStderr())
			report, err := API(ctx, target, o)
			if err != nil {
				return err
			}
			return showReport(command.OutOrStdout(), c.output, c.file, report, report.table)
		},
	}
	c.addFlags(command)
	f := command.Flags()
	f.IntSliceVar(&o.Shoots, "shoots", []int{1000, 5000}, "numbers of Shoots to measure with, one after the other")
	f.IntVar(&o.Clients, "clients", 16, "number of concurrent clients, each with its own connection")
	f.IntVar(&o.Watchers, "watchers", 10, "watchers of all Shoots")
	f.StringVar(&c.direct, "direct", "",
		"URL of the API server itself; empty means through the kube-apiserver in front of it")
	f.StringVar(&c.directCA, "direct-ca", "",
		"file with the certificate authority of --direct; empty means that of the kubeconfig")
	f.IntVar(&pid, "pid", 0, "process of the server on this machine, to read its memory and CPU time")
	f.StringVar(&metricsPath, "metrics-path", "",
		"path of the measured server's metrics, to read its memory and CPU time, for example /metrics with --direct")
	return command
}

func newSchedulerCommand() *cobra.Command {
	var (
		c common
		o SchedulerOptions
	)
	command := &cobra.Command{
		Use:   "scheduler",
		Short: "Let the real scheduler place Shoots and measure how fast it is",
		Long: `Let the real scheduler place Shoots and measure how fast it is.

The scheduler runs inside this command, under a name of its own, and places only what the bench has made: Shoots without
a Seed, and Seeds without a gardenlet. Everything is removed in the end.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), c.timeout)
			defer cancel()
			target, err := c.target(ctx)
			if err != nil {
				return err
			}
			o.Suffix, o.Progress = suffix(), progressTo(command.ErrOrStderr())
			report, err := Scheduler(ctx, target, o)
			if err != nil {
				return err
			}
			return showReport(command.OutOrStdout(), c.output, c.file, report, report.table)
		},
	}
	c.addFlags(command)
	f := command.Flags()
	f.IntSliceVar(&o.Shoots, "shoots", []int{1000, 5000}, "numbers of Shoots to place, one after the other")
	f.IntVar(&o.Seeds, "seeds", 20, "Seeds to spread the Shoots over")
	f.IntVar(&o.Workers, "workers", 8, "Shoots that the scheduler processes concurrently")
	f.IntVar(&o.Clients, "clients", 16, "clients that create and delete the Shoots")
	return command
}

func newLandscapeCommand() *cobra.Command {
	var (
		o       LandscapeOptions
		local   localSite
		format  string
		file    string
		timeout time.Duration
	)
	command := &cobra.Command{
		Use:   "landscape",
		Short: "Time this machine's landscape and its Shoots, and weigh their processes",
		Long: `Time this machine's landscape and its Shoots, and weigh their processes (root).

The landscape is brought up, or found up to date; Shoots are created one after the other and deleted in the end. Memory is
the sum of proportional set sizes; CPU usage is measured while idle. With --fresh the landscape is removed
first, with everything in it, and its start is timed.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return errors.New("not root: the memory of all processes can be read only by root, for instance with sudo")
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			local.upFlags = []string{"--state-dir", local.stateDir, "--run-dir", local.runDir}
			o.Progress, o.now, o.sleep = progressTo(command.ErrOrStderr()), time.Now, sleep
			report, err := Landscape(ctx, &local, o)
			if err != nil {
				return err
			}
			return showReport(command.OutOrStdout(), format, file, report, report.table)
		},
	}
	f := command.Flags()
	f.StringVar(&file, "json-file", "", "file to write the report to as JSON, too")
	f.StringVar(&local.stateDir, "state-dir", garden.DefaultStateDir, "folder with the landscape's state")
	f.StringVar(&local.runDir, "run-dir", "/run/hortus", "folder with the landscape's sockets")
	f.BoolVar(&o.Fresh, "fresh", false, "remove the landscape first, with everything in it, and time its start")
	f.IntVar(&o.Shoots, "shoots", 2, "Shoots to create, one after the other")
	f.DurationVar(&o.Settle, "settle", 30*time.Second, "time before memory is weighed")
	f.DurationVar(&o.Period, "period", time.Minute, "time for which idle CPU is watched")
	output.AddFlag(command, &format, "table", "json")
	f.DurationVar(&timeout, "timeout", time.Hour, "end the bench after this time")
	return command
}

func newNeighboursCommand() *cobra.Command {
	var (
		o       NeighboursOptions
		local   localSite
		format  string
		file    string
		timeout time.Duration
	)
	command := &cobra.Command{
		Use:   "neighbours",
		Short: "Measure what a quiet tenant of this machine's landscape notices of noisy ones",
		Long: `Measure what a quiet tenant of this machine's landscape notices of noisy ones.

Shoots without machines are made on one seed. One of them reads and writes now and then, while the others list, watch and write
as much as they can. All are deleted in the end. The noisy clients run on the same cores with the lowest priority.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			o.Progress, o.now, o.sleep = progressTo(command.ErrOrStderr()), time.Now, sleep
			report, err := Neighbours(ctx, &local, o)
			if err != nil {
				return err
			}
			return showReport(command.OutOrStdout(), format, file, report, report.table)
		},
	}
	f := command.Flags()
	f.StringVar(&file, "json-file", "", "file to write the report to as JSON, too")
	f.StringVar(&local.stateDir, "state-dir", garden.DefaultStateDir, "folder with the landscape's state")
	f.IntVar(&o.Noisy, "noisy", 3, "tenants that make noise")
	f.DurationVar(&o.Period, "period", 20*time.Second, "time for which each kind of noise lasts")
	output.AddFlag(command, &format, "table", "json")
	f.DurationVar(&timeout, "timeout", 30*time.Minute, "end the bench after this time")
	return command
}

// usageOf chooses the source of the server's memory and CPU time.
func usageOf(target *Target, pid int, metricsPath string) (usageSource, error) {
	if pid > 0 {
		return processUsage("/proc", pid), nil
	}
	if metricsPath == "" {
		return nil, nil
	}
	if parsed, err := url.Parse(metricsPath); err != nil || parsed.Host != "" {
		return nil, fmt.Errorf("invalid metrics path: %q", metricsPath)
	}
	client, err := newJSONClient(target.Measured)
	if err != nil {
		return nil, err
	}
	client.accept = "text/plain"
	return metricsUsage(client, metricsPath), nil
}

// suffix makes the names of a run unique: 4 hexadecimal digits, since names of projects are short.
func suffix() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // Never fails.
	return hex.EncodeToString(b[:])
}

func progressTo(out io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(out, "  ... "+format+"\n", args...) }
}
