package landscape

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/output"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/machineinit/unit"
)

// Part is one line of the landscape's status.
type Part struct {
	Part   string `json:"part"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// NewStatusCommand returns 'hortus status'.
func NewStatusCommand() *cobra.Command {
	var o Options
	var format string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the status of the landscape on this machine",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.absolute(); err != nil {
				return err
			}
			return printStatus(command.OutOrStdout(), format, Status(command.Context(), o))
		},
	}
	o.addFlags(command)
	output.AddFlag(command, &format, "table", "json", "yaml")
	return command
}

// Status checks every part of the landscape, from the host's processes up to the Shoots. A part that cannot be checked
// is reported as such and does not hide the others.
func Status(ctx context.Context, o Options) []Part {
	units, err := unit.NewClient(o.paths().socket()).List(ctx)
	if err != nil {
		return []Part{{"landscape", "down", "bring it up with 'hortus up'"}}
	}
	var parts []Part
	for _, u := range units {
		parts = append(parts, Part{"process " + u.Name, string(u.State), u.Message})
	}
	parts = append(parts, instanceParts(ctx, o)...)
	return append(parts, gardenParts(ctx, o)...)
}

func instanceParts(ctx context.Context, o Options) []Part {
	config, err := cloud.LoadConfig(cloud.AdminFile(o.StateDir))
	if err != nil {
		return []Part{{"cloud", "unknown", err.Error()}}
	}
	c, err := cloud.New(config)
	if err != nil {
		return []Part{{"cloud", "unknown", err.Error()}}
	}
	instances, err := c.ListInstances(ctx, cloud.Filter{})
	if err != nil {
		return []Part{{"cloud", "unknown", err.Error()}}
	}
	var parts []Part
	for _, i := range instances {
		parts = append(parts, Part{"instance " + i.Name, string(i.State), i.Message})
	}
	return parts
}

func gardenParts(ctx context.Context, o Options) []Part {
	config, err := clientcmd.BuildConfigFromFlags("", garden.KubeconfigPath(o.StateDir, "garden"))
	if err != nil {
		return []Part{{"garden", "unknown", err.Error()}}
	}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return []Part{{"garden", "unknown", err.Error()}}
	}
	var seeds corev1beta1.SeedList
	if err := c.List(ctx, &seeds); err != nil {
		return []Part{{"garden", "unknown", err.Error()}}
	}
	parts := []Part{{"garden", "ready", ""}}
	for _, s := range seeds.Items {
		part := Part{Part: "seed " + s.Name, State: "ready"}
		for _, condition := range s.Status.Conditions {
			if condition.Status != corev1beta1.ConditionTrue {
				part.State, part.Detail = "not ready",
					fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message)
				break
			}
		}
		if len(s.Status.Conditions) == 0 {
			part.State, part.Detail = "not ready", "its gardenlet has not reported yet"
		}
		parts = append(parts, part)
	}
	var shoots corev1beta1.ShootList
	if err := c.List(ctx, &shoots); err != nil {
		return append(parts, Part{"shoots", "unknown", err.Error()})
	}
	for _, s := range shoots.Items {
		part := Part{Part: "shoot " + s.Namespace + "/" + s.Name, State: "pending"}
		if operation := s.Status.LastOperation; operation != nil {
			part.State = fmt.Sprintf("%s %s (%d%%)", operation.Type, operation.State, operation.Progress)
			part.Detail = operation.Description
		}
		parts = append(parts, part)
	}
	return parts
}

func printStatus(out io.Writer, format string, parts []Part) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(parts)
	case "yaml":
		data, err := yaml.Marshal(parts)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tSTATE\tDETAIL")
	for _, p := range parts {
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.Part, p.State, p.Detail)
	}
	return table.Flush()
}
