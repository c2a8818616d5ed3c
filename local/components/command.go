package components

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/output"
)

// NewCommand returns "components", which builds the programs of clusters and shows what is built.
func NewCommand() *cobra.Command {
	b := &Builder{}
	cmd := &cobra.Command{
		Use:   "components",
		Short: "Build the programs that clusters are made of",
		Args:  cobra.NoArgs,
	}
	cmd.PersistentFlags().StringVar(&b.Artifacts, "artifacts", ".build", "folder for built programs and images")
	cmd.PersistentFlags().StringVar(&b.Source, "components", "local/components",
		"folder with the components' source modules")
	cmd.AddCommand(newBuildCommand(b), newListCommand(b))
	return cmd
}

func newBuildCommand(b *Builder) *cobra.Command {
	var everything bool
	cmd := &cobra.Command{
		Use:   "build [NAME...]",
		Short: "Build components that are not up to date",
		Long: `Build components that are not up to date. Without names that is all but the older Kubernetes versions, which are built
when a cluster uses them, and Kubernetes' end-to-end tests. A name is a folder of the components folder (kubernetes-1.35.4),
a component (kubernetes) or a version of it (kubernetes@v1.35.4).`,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			b.Progress = cmd.ErrOrStderr()
			selected, err := selectForBuild(names, everything)
			if err != nil {
				return err
			}
			start := time.Now()
			if err := b.Build(ctx, selected); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d components up to date after %s\n", len(selected), elapsed(start))
			return nil
		},
	}
	cmd.Flags().BoolVar(&everything, "all", false, "build every component in every version")
	cmd.Flags().BoolVar(&b.Force, "force", false, "build even what is up to date")
	return cmd
}

func selectForBuild(names []string, everything bool) ([]Component, error) {
	if len(names) > 0 {
		return Select(All(), names...)
	}
	var selected []Component
	for _, c := range All() {
		if everything || !c.OnDemand {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

func newListCommand(b *Builder) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:          "list",
		Short:        "List components, their versions and whether they are built",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := b.Status(cmd.Context(), All())
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), format, b.Artifacts, all)
		},
	}
	output.AddFlag(cmd, &format, "table", "json", "yaml")
	return cmd
}

// listed is one component in machine-readable output.
type listed struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Folder   string            `json:"folder"`
	State    State             `json:"state"`
	OnDemand bool              `json:"onDemand"`
	Bytes    int64             `json:"bytes,omitempty"`
	Seconds  float64           `json:"seconds,omitempty"`
	BuiltAt  string            `json:"builtAt,omitempty"`
	Programs map[string]string `json:"programs"` // Name to path.
}

func printStatus(out io.Writer, format, artifacts string, all []Status) error {
	if format == "table" {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tVERSION\tSTATE\tMB\tSECONDS\tFOLDER")
		for _, s := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%.1f\t%s\n",
				s.Component.Name, s.Component.Version, s.State, float64(s.Bytes)/1e6, s.Seconds, s.Component.Folder)
		}
		return w.Flush()
	}
	items := []listed{}
	for _, s := range all {
		item := listed{
			Name: s.Component.Name, Version: s.Component.Version, Folder: s.Component.Folder, State: s.State,
			OnDemand: s.Component.OnDemand, Bytes: s.Bytes, Seconds: s.Seconds, Programs: map[string]string{},
		}
		if !s.BuiltAt.IsZero() {
			item.BuiltAt = s.BuiltAt.Format(time.RFC3339)
		}
		for _, p := range s.Component.Programs {
			item.Programs[p.Name] = s.Component.Path(artifacts, p.Name)
		}
		items = append(items, item)
	}
	return encode(out, format, items)
}

func encode(out io.Writer, format string, value any) error {
	var raw []byte
	var err error
	if format == "json" {
		raw, err = json.MarshalIndent(value, "", "  ")
		raw = append(raw, '\n')
	} else {
		raw, err = yaml.Marshal(value)
	}
	if err != nil {
		return fmt.Errorf("encode as %s: %w", format, err)
	}
	_, err = out.Write(raw)
	return err
}
