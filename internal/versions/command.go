package versions

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/output"
	"hortus.dev/hortus/internal/plan"
)

type command struct {
	clock    clock.PassiveClock
	source   fleet.Source
	profiles []string
	until    string
	output   string
	seed     uint64
}

// NewCommand returns 'hortus versions'.
func NewCommand() *cobra.Command { return newCommand(clock.RealClock{}) }

func newCommand(clock clock.PassiveClock) *cobra.Command {
	c := &command{clock: clock, source: fleet.Source{Options: plan.Reads}}
	cmd := &cobra.Command{
		Use:   "versions [SHOOT]",
		Short: "List the offered versions, or where one Shoot can go and will be moved",
		Example: `  hortus versions
  hortus versions --cloudprofile local -o json
  hortus versions -n garden-dev demo`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd, args)
		},
	}
	c.source.AddFlags(cmd)
	c.source.AddNamespaceFlag(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&c.profiles, "cloudprofile", nil,
		"only these profiles; NamespacedCloudProfiles are named NAMESPACE/NAME")
	flags.StringVar(&c.until, "until", "1y", "for a Shoot: how far to look ahead, such as 2y, 6mo, 90d, or a date")
	output.AddFlag(cmd, &c.output, "table", "json", "yaml")
	flags.Uint64Var(&c.seed, "jitter-seed", 0, "jitter seed of the maintenance controller, to compute the exact time within each window")
	return cmd
}

func (c *command) run(cmd *cobra.Command, args []string) error {
	now := c.clock.Now().UTC().Truncate(time.Second)
	until, err := plan.ParseUntil(c.until, now)
	if err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	read, err := c.source.Read(cmd)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(args) == 1 {
		return c.outlook(out, read, args[0], plan.Options{At: now, Until: until, Jitter: maintenance.HashJitter(c.seed)})
	}
	entries, err := Catalogue(read, c.profiles, now)
	if err != nil {
		return err
	}
	if c.output != "table" {
		return plan.Encode(out, c.output, entries)
	}
	return writeCatalogue(out, entries)
}

func (c *command) outlook(out io.Writer, f *fleet.Fleet, name string, options plan.Options) error {
	f.Shoots = slices.DeleteFunc(f.Shoots, func(s corev1beta1.Shoot) bool {
		return s.Name != name && s.Namespace+"/"+s.Name != name
	})
	switch len(f.Shoots) {
	case 0:
		return fmt.Errorf("Shoot %q not found", name)
	case 1:
	default:
		return fmt.Errorf("found %d Shoots named %q: choose the namespace with -n", len(f.Shoots), name)
	}
	shoot, prepared := &f.Shoots[0], plan.Prepare(f, options.At)
	profile, err := prepared.Profile(plan.ProfileOf(shoot))
	if err != nil {
		return err
	}
	p := plan.Make(prepared, options)
	o := OutlookOf(shoot, profile, p.Shoots[0], options.At)
	if c.output != "table" {
		return plan.Encode(out, c.output, o)
	}
	return writeOutlook(out, o, p)
}
