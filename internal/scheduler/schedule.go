package scheduler

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/output"
)

// NewScheduleCommand returns 'hortus schedule', which shows the Seed for each Shoot, and the reasons.
func NewScheduleCommand() *cobra.Command {
	source := fleet.Source{Options: reads} // The whole garden: Shoots of other namespaces count, too.
	var (
		namespace, strategy string
		scheduler, format   string
	)
	command := &cobra.Command{
		Use:   "schedule [SHOOT...]",
		Short: "Show which seed Shoots would get, with a verdict on every seed",
		Long: `Show which seed Shoots would get, with a verdict on every seed.

With -f the decision is taken offline from manifests of Seeds, CloudProfiles, NamespacedCloudProfiles, Projects, Shoots and
region ConfigMaps (namespace garden); without, from a live garden. Nothing is changed.

Places the Shoots without spec.seedName that name this scheduler and are not being deleted, in the order of the input. Each
placement counts for the next. Shoots with a seed are not placed, but count; named Shoots are placed as if unassigned.
Offline, Shoots without metadata.uid first get the default tolerations of their Project, as on creation. Of two manifests of
one object the later one is used.

-o json prints one line per Shoot. Its fields seed, tiedSeeds, error and verdicts are always there, empty if need be. The
verdict on a seed that does not fit has all reasons, and the change of the Shoot that would make it fit if there is one.`,
		Example: `  hortus schedule -f manifests/ -o json
  kubectl get seeds,cloudprofiles,shoots -A -o yaml | hortus schedule -f - --strategy MinimalDistance`,
		RunE: func(command *cobra.Command, args []string) error {
			parsed, err := ParseStrategy(strategy)
			if err != nil {
				return err
			}
			f, err := source.Read(command)
			if err != nil {
				return err
			}
			if len(source.Files) > 0 {
				admit(f)
			}
			selected := func(s *corev1beta1.Shoot) bool {
				return (namespace == "" || s.Namespace == namespace) && (len(args) == 0 || slices.Contains(args, s.Name))
			}
			if len(args) > 0 {
				takeOff(f, selected)
			}
			results := Schedule(f, scheduler, parsed, selected)
			if len(results) == 0 {
				fmt.Fprintln(command.ErrOrStderr(), "No Shoot waits for a seed. Name Shoots to place them as if unassigned.")
			}
			return printResults(command.OutOrStdout(), format, results)
		},
	}
	source.AddFlags(command)
	f := command.Flags()
	f.StringVarP(&namespace, "namespace", "n", "", "only Shoots of this namespace")
	f.StringVar(&strategy, "strategy", string(SameRegion), "SameRegion or MinimalDistance")
	f.StringVar(&scheduler, "scheduler-name", corev1beta1.DefaultSchedulerName,
		"decide on the Shoots whose spec.schedulerName is this")
	output.AddFlag(command, &format, "table", "json")
	return command
}

func printResults(out io.Writer, format string, results []Result) error {
	if format == "table" {
		return printTable(out, results)
	}
	encoder := json.NewEncoder(out)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func printTable(out io.Writer, results []Result) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SHOOT\tSEED\tVERDICT\tFILTER\tREASON")
	for _, r := range results {
		shoot := r.Namespace + "/" + r.Name
		for _, v := range r.Verdicts {
			verdict := "rejected"
			switch {
			case v.Seed == r.Seed:
				verdict = "chosen"
			case v.Passed:
				verdict = "fits"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", shoot, v.Seed, verdict, v.Filter, v.Reason)
			for _, more := range v.Reasons[min(1, len(v.Reasons)):] {
				fmt.Fprintf(table, "%s\t%s\t\t%s\t%s\n", shoot, v.Seed, more.Filter, more.Reason)
			}
		}
		if r.Seed == "" {
			fmt.Fprintf(table, "%s\t<none>\t\t\t%s\n", shoot, r.Error)
		}
		if r.Change != "" {
			fmt.Fprintf(table, "%s\t\t\t\tto make it fit %s\n", shoot, r.Change)
		}
	}
	return table.Flush()
}
