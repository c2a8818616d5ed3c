package images

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

// NewCommand returns "images", which packs built programs into images and shows what the layout holds.
func NewCommand() *cobra.Command {
	o := &Options{}
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Pack programs into container and machine images",
		Args:  cobra.NoArgs,
	}
	cmd.PersistentFlags().StringVar(&o.Artifacts, "artifacts", ".build", "folder for built programs and images")
	cmd.AddCommand(newBuildCommand(o), newListCommand(o), newAddCommand(o))
	return cmd
}

func newBuildCommand(o *Options) *cobra.Command {
	var everything bool
	cmd := &cobra.Command{
		Use:   "build [NAME...]",
		Short: "Build images that are not up to date, with the components they need",
		Long: `Build images that are not up to date, with the components they need. Without names that is all but those of the older
Kubernetes versions and of Kubernetes' end-to-end tests. A name is a full image name, its last part with tag (machine:1.1.0) or
without (machine); e2e stands for all of Kubernetes' end-to-end tests.`,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			o.Progress = cmd.ErrOrStderr()
			switch {
			case len(names) > 0:
				selected, err := Select(names...)
				if err != nil {
					return err
				}
				o.Images = selected
			case everything:
				o.Images = Names()
			default:
				o.Images = Defaults()
			}
			start := time.Now()
			if err := Build(ctx, *o); err != nil {
				return err
			}
			fmt.Fprintf(o.Progress, "%d images up to date after %s\n", len(o.Images), time.Since(start).Round(time.Second/100))
			return nil
		},
	}
	cmd.Flags().BoolVar(&everything, "all", false, "build every image in every version")
	cmd.Flags().StringVar(&o.Components, "components", "local/components", "folder with the components' source modules")
	cmd.Flags().StringVar(&o.Module, "module", ".", "folder of this project's Go module")
	cmd.Flags().StringVar(&o.HortusBinary, "hortus-binary", "",
		"static program for the hortus image (default: built from the module)")
	cmd.Flags().StringVar(&o.MachineInitBinary, "machine-init-binary", "",
		"static program for machines (default: built from the module)")
	cmd.Flags().StringVar(&o.ControlPlaneBinary, "control-plane-binary", "",
		"static program for control planes in the hortus image (default: built from the module)")
	cmd.Flags().StringVar(&o.TunnelBinary, "tunnel-binary", "",
		"static program for both ends of the tunnel in the hortus image (default: built from the module)")
	cmd.Flags().StringVar(&o.CNIPolicyBinary, "cni-policy-binary", "",
		"static program for machines and the hortus image (default: built from the module)")
	cmd.Flags().StringVar(&o.EchoBinary, "echo-binary", "",
		"static program for the echo image (default: built from the module)")
	return cmd
}

func newListCommand(o *Options) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:          "list",
		Short:        "List the images of the layout and those that could be built",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var stored []Stored
			if _, err := os.Stat(LayoutDir(o.Artifacts)); err == nil { // Listing must not create the folder.
				store, err := OpenStore(LayoutDir(o.Artifacts))
				if err != nil {
					return err
				}
				if stored, err = store.List(); err != nil {
					return err
				}
			}
			return printImages(cmd.OutOrStdout(), format, listing(Names(), stored))
		},
	}
	output.AddFlag(cmd, &format, "table", "json", "yaml")
	return cmd
}

// listed is one image in the output of list.
type listed struct {
	Stored
	Built bool `json:"built"`
}

// listing returns known images in build order, followed by others that the layout holds.
func listing(names []string, stored []Stored) []listed {
	byName := map[string]Stored{}
	for _, s := range stored {
		byName[s.Name] = s
	}
	all := []listed{}
	for _, name := range names {
		s, built := byName[name]
		s.Name = name
		all = append(all, listed{s, built})
		delete(byName, name)
	}
	for _, s := range stored {
		if _, other := byName[s.Name]; other {
			all = append(all, listed{s, true})
		}
	}
	return all
}

func printImages(out io.Writer, format string, all []listed) error {
	var raw []byte
	var err error
	switch format {
	case "table":
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tBUILT\tMB\tLAYERS\tDIGEST")
		for _, i := range all {
			digest := i.Digest
			if len(digest) > len("sha256:")+12 {
				digest = digest[:len("sha256:")+12]
			}
			fmt.Fprintf(w, "%s\t%t\t%.1f\t%d\t%s\n", i.Name, i.Built, float64(i.Bytes)/1e6, i.Layers, digest)
		}
		return w.Flush()
	case "json":
		raw, err = json.MarshalIndent(all, "", "  ")
		raw = append(raw, '\n')
	case "yaml":
		raw, err = yaml.Marshal(all)
	}
	if err != nil {
		return fmt.Errorf("encode as %s: %w", format, err)
	}
	_, err = out.Write(raw)
	return err
}
