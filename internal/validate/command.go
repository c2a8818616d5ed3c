package validate

import (
	"fmt"
	"io"
	_ "time/tzdata" // Hibernation schedules have time zones, which the system may lack.

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/manifest"
	"hortus.dev/hortus/internal/output"
)

// invalidError results in the exit code for invalid manifests.
type invalidError struct{ problems, objects int }

func (e invalidError) Error() string {
	return fmt.Sprintf("%s in %s", plural(e.problems, "problem"), plural(e.objects, "manifest"))
}

// Code returns the exit code.
func (invalidError) Code() int { return 1 }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// command holds the flags.
type command struct {
	files, old []string
	output     string
	options    Options
	gates      map[string]bool
	clock      clock.PassiveClock
}

// NewCommand returns `hortus validate`.
func NewCommand() *cobra.Command { return newCommand(clock.RealClock{}) }

func newCommand(clock clock.PassiveClock) *cobra.Command {
	c := &command{clock: clock}
	cmd := &cobra.Command{
		Use:   "validate -f FILE...",
		Short: "Check manifests without a server",
		Long: `Checks manifests of Shoots, CloudProfiles, Seeds, Projects and related kinds as the API server does, and reports all
problems of all manifests at once. Unknown and duplicate fields are problems, too.

If a Shoot's CloudProfile is among the manifests, it is checked against that: versions, machine images, region, zones,
machine types, volumes and limits. Also checked: ConfigMaps with its audit policy, structured authentication or structured
authorization. References to other objects, such as credentials, Seeds and quotas, are checked by the server only.

With --old the manifests are changes of stored objects, which are manifests or what kubectl get -o yaml has written.`,
		Example: `  hortus validate -f shoot.yaml
  hortus validate -f cloudprofile.yaml -f shoots/ -o json
  kubectl get shoot apple -o yaml | hortus validate -f new.yaml --old -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&c.files, "filename", "f", nil,
		"files, folders or - (standard input) with manifests in YAML or JSON")
	flags.StringSliceVar(&c.old, "old", nil, "files, folders or - with the stored objects; checks changes")
	output.AddFlag(cmd, &c.output, "table", "json", "yaml")
	flags.StringVarP(&c.options.Namespace, "namespace", "n", "default", "namespace of objects that name none")
	flags.Var(&gatesValue{&c.gates}, "feature-gates",
		"gates of the API server that differ from their defaults, such as InPlaceNodeUpdates=false")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // The flag is declared above.
	}
	return cmd
}

func (c *command) run(in io.Reader, out io.Writer) error {
	write := writers[c.output]
	documents, err := manifest.Read(c.files, in, newDocument)
	if err != nil {
		return err
	}
	old, err := manifest.Read(c.old, in, newDocument)
	if err != nil {
		return err
	}
	c.options.Features, c.options.Now, c.options.Update = corev1beta1.DefaultFeatures(), c.clock.Now(), len(c.old) > 0
	if err := setGates(&c.options.Features, c.gates); err != nil {
		return err
	}
	results := check(documents, old, c.options)
	if err := write(out, results); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	failed := invalidError{}
	for _, r := range results {
		if !r.Valid {
			failed.objects++
			failed.problems += len(r.Problems)
		}
	}
	if failed.objects > 0 {
		return failed
	}
	return nil
}
