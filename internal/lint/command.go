package lint

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/output"
	"hortus.dev/hortus/internal/plan"
)

// exitErrors is the exit code if there are findings of severity error.
const exitErrors = 3

// foundError carries the exit code; the output has the details.
type foundError struct{}

func (foundError) Error() string { return "" }

// Code returns the exit code.
func (foundError) Code() int { return exitErrors }

type command struct {
	clock  clock.PassiveClock
	source fleet.Source
	with   []string
	at     string
	output string
}

// NewCommand returns 'hortus lint'.
func NewCommand() *cobra.Command { return newCommand(clock.RealClock{}) }

func newCommand(clock clock.PassiveClock) *cobra.Command {
	c := &command{clock: clock, source: fleet.Source{Options: plan.Reads}}
	cmd := &cobra.Command{
		Use:   "lint [CLOUDPROFILE...]",
		Short: "Find dead ends and other problems in the versions of CloudProfiles",
		Long: `Find dead ends and other problems in the versions of CloudProfiles, with the last date on which each can still
be prevented. NamespacedCloudProfiles are named NAMESPACE/NAME. The exit code is 3 if anything is wrong that
leaves Shoots stuck or that the API server refuses.`,
		Example: `  hortus lint
  hortus lint -f cloudprofile.yaml -o json
  hortus lint --with new-cloudprofile.yaml      # with the Shoots of the garden`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, args)
		},
	}
	c.source.AddFlags(cmd)
	c.source.AddNamespaceFlag(cmd)
	cmd.Flags().StringSliceVar(&c.with, "with", nil,
		"check the CloudProfiles of these manifests instead of those of the same name")
	cmd.Flags().StringVar(&c.at, "at", "", "time to check for, a date or an RFC 3339 time; empty means now")
	output.AddFlag(cmd, &c.output, "table", "json", "yaml")
	return cmd
}

func (c *command) run(cmd *cobra.Command, names []string) error {
	now := c.clock.Now().UTC().Truncate(time.Second)
	if c.at != "" {
		var err error
		if now, err = plan.ParseTime(c.at); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	read, err := c.source.Read(cmd)
	if err != nil {
		return err
	}
	if len(c.with) > 0 {
		others, err := c.source.ReadFiles(cmd, c.with)
		if err != nil {
			return err
		}
		read = read.Overlay(others)
	}
	findings, err := CheckAll(read, names, now)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if c.output == "table" {
		err = writeTable(out, findings, len(read.CloudProfiles)+len(read.NamespacedCloudProfiles))
	} else {
		if findings == nil {
			findings = []Finding{}
		}
		err = plan.Encode(out, c.output, findings)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error }) {
		return foundError{}
	}
	return nil
}

func writeTable(out io.Writer, findings []Finding, profiles int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(findings) == 0 {
		fmt.Fprintf(w, "No problems found in %d CloudProfiles.\n", profiles)
	} else {
		fmt.Fprintln(w, "SEVERITY\tRULE\tCLOUDPROFILE\tWHAT\tSHOOTS\tFIX UNTIL\tMESSAGE")
	}
	for i := range findings {
		f := &findings[i]
		what := f.What
		if f.Version != "" {
			what += " " + f.Version
		}
		deadline := "-"
		if f.Deadline != nil {
			deadline = f.Deadline.UTC().Format(time.DateOnly)
		} else if f.Severity == Error {
			deadline = "now"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", f.Severity, f.Rule, f.Profile, what, f.Shoots, deadline, f.Message)
		if f.Fix != "" {
			fmt.Fprintf(w, "\t\t\t\t\t\tfix: %s\n", f.Fix)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	return nil
}
