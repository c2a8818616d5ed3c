package diff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/manifest"
	"hortus.dev/hortus/internal/output"
	"hortus.dev/hortus/internal/plan"
)

// Diff is what an edit does to a Shoot.
type Diff struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Fields    []Field  `json:"fields"`
	Pools     []Pool   `json:"pools"`
	Restarts  []Part   `json:"restarts"` // Parts of the control plane.
	Notes     []string `json:"notes,omitempty"`
	Warnings  []string `json:"warnings,omitempty"` // Of the API server.
}

// warnings collects those of the API server.
type warnings []string

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	if text != "" && !slices.Contains(*w, text) {
		*w = append(*w, text)
	}
}

type command struct {
	access    garden.Access
	files     []string
	namespace string
	output    string
}

// NewCommand returns 'hortus diff'.
func NewCommand() *cobra.Command {
	c := &command{}
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what an edit of a Shoot would do to its control plane and machines, before it is made",
		Long: `Show what "kubectl apply" of manifests of Shoots would do: whether the API server refuses it, which fields
change, which parts of the control plane get new pods, and which worker pools are rolled, updated in place, or kept.
Nothing is changed; the API server applies the edit in a dry run.

Operations that annotations request, such as rollout-workers, are not shown.`,
		Example: `  hortus diff -f shoot.yaml
  kubectl get shoot demo -n garden-dev -o yaml | sed 's/type: small/type: medium/' | hortus diff -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.access.AddFlags(cmd.Flags())
	cmd.Flags().StringSliceVarP(&c.files, "filename", "f", nil, "files, folders or - (standard input) with manifests")
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "garden-dev", "namespace of Shoots whose manifests name none")
	output.AddFlag(cmd, &c.output, "table", "json", "yaml")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // The flag is defined above.
	}
	return cmd
}

func (c *command) run(cmd *cobra.Command) error {
	shoots, err := c.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	config, err := c.access.RESTConfig()
	if err != nil {
		return err
	}
	warned := &warnings{}
	config.WarningHandlerWithContext = warned
	api, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return fmt.Errorf("connect to the garden: %w", err)
	}
	diffs := []*Diff{}
	var errs []error
	for _, shoot := range shoots {
		*warned = nil
		d, err := c.diff(cmd.Context(), api, shoot)
		if err != nil {
			errs = append(errs, fmt.Errorf("Shoot %s/%s: %w", shoot.Namespace, shoot.Name, err))
			continue
		}
		d.Warnings = *warned
		diffs = append(diffs, d)
	}
	if c.output != "table" {
		errs = append(errs, plan.Encode(cmd.OutOrStdout(), c.output, diffs))
	} else {
		errs = append(errs, writeTable(cmd.OutOrStdout(), diffs))
	}
	return errors.Join(errs...)
}

// read returns the Shoots in the manifests.
func (c *command) read(stdin io.Reader) ([]*manifest.Object, error) {
	objects, err := manifest.Read(c.files, stdin, func(o *manifest.Object) *manifest.Object { return o })
	if err != nil {
		return nil, err
	}
	var broken manifest.Errors
	var shoots []*manifest.Object
	for _, o := range objects {
		for _, p := range o.Problems {
			broken = append(broken, o.Finding(p))
		}
		if o.Kind != "Shoot" || !strings.HasPrefix(o.APIVersion, corev1beta1.GroupName+"/") {
			continue
		}
		if o.Namespace == "" {
			o.Namespace = c.namespace
		}
		shoots = append(shoots, o)
	}
	if len(broken) > 0 {
		return nil, broken
	}
	if len(shoots) == 0 {
		return nil, fmt.Errorf("--filename: invalid value: %q (manifests with at least one Shoot)",
			strings.Join(c.files, ","))
	}
	return shoots, nil
}

func (c *command) diff(ctx context.Context, api client.Client, shoot *manifest.Object) (*Diff, error) {
	wanted := shoot.Fields()
	metadata, ok := wanted["metadata"].(map[string]any)
	if !ok || shoot.Name == "" {
		return nil, errors.New("metadata.name: required")
	}
	metadata["namespace"] = shoot.Namespace
	was, is, err := preview(ctx, api, wanted)
	if err != nil {
		return nil, err
	}
	before, err := shootOf(was)
	if err != nil {
		return nil, err
	}
	after, err := shootOf(is)
	if err != nil {
		return nil, err
	}
	out := &Diff{Namespace: shoot.Namespace, Name: shoot.Name, Notes: notes(before, after), Restarts: []Part{}}
	if was != nil {
		out.Fields = fields("spec", was["spec"], is["spec"])
	}
	if before != nil && !before.HibernationEnabled() && !after.HibernationEnabled() {
		former, _, _ := unstructured.NestedMap(was, "spec")
		edited, _, _ := unstructured.NestedMap(is, "spec")
		out.Restarts = append(out.Restarts, Restarts(former, edited)...)
	}
	out.Pools, err = Of(before, after)
	return out, err
}

// notes are what a person has to know besides the changes.
func notes(before, after *corev1beta1.Shoot) (out []string) {
	if before == nil {
		return []string{"the Shoot does not exist yet"}
	}
	switch {
	case before.HibernationEnabled() && after.HibernationEnabled():
		out = append(out, "the Shoot is hibernated: it has no machines and no control plane until it wakes up")
	case after.HibernationEnabled():
		out = append(out, "the Shoot hibernates: all machines are deleted, and the control plane stops")
	case before.HibernationEnabled():
		out = append(out, "the Shoot wakes up: all pools get new machines, and the control plane starts")
	}
	if before.Status.ObservedGeneration != before.Generation {
		out = append(out, "former edits of the Shoot are not reconciled yet; their effects are not shown")
	}
	m := after.Spec.Maintenance
	if m != nil && m.TimeWindow != nil && ptr.Deref(m.ConfineSpecUpdateRollout, false) {
		out = append(out, fmt.Sprintf("changes of the spec are rolled out in the maintenance window, from %s to %s",
			m.TimeWindow.Begin, m.TimeWindow.End))
	}
	return out
}

func writeTable(out io.Writer, diffs []*Diff) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, d := range diffs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "Shoot %s/%s\n", d.Namespace, d.Name)
		for _, note := range d.Notes {
			fmt.Fprintf(w, "Note: %s.\n", note)
		}
		for _, warning := range d.Warnings {
			fmt.Fprintf(w, "Warning: %s.\n", warning)
		}
		if len(d.Fields) > 0 {
			fmt.Fprint(w, "\nFIELD\tBEFORE\tAFTER\n")
			for _, f := range d.Fields {
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Path, text(f.Before), text(f.After))
			}
		}
		if len(d.Restarts) > 0 {
			fmt.Fprint(w, "\nCONTROL PLANE\tEFFECT\tREASONS\n")
		}
		for _, part := range d.Restarts {
			fmt.Fprintf(w, "%s\treplaced\t%s\n", part.Name, strings.Join(part.Reasons, "; "))
		}
		if len(d.Pools) == 0 {
			continue
		}
		fmt.Fprint(w, "\nPOOL\tEFFECT\tMACHINES\tREASONS\n")
		for _, p := range d.Pools {
			effect := string(p.Effect)
			if p.Hash != "" {
				effect += " if its hash is " + p.Hash
			}
			machines, why := p.Machines, strings.Join(p.Reasons, "; ")
			if machines == "" {
				machines = "-"
			}
			if why == "" {
				why = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, effect, machines, why)
		}
	}
	return w.Flush()
}
