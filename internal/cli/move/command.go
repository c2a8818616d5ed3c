// Package move has the commands that move control planes of Shoots to other Seeds: one of them, or all of a Seed. They
// need only the garden. The gardenlets do the moves, which continue without the command.
package move

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/output"
)

// command holds the flags and dependencies that both commands share.
type command struct {
	clock        clock.PassiveClock
	access       garden.Access
	output       string
	to           string
	sourceIsDead bool
	yes          bool
}

// NewMoveCommand returns 'hortus move'.
func NewMoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move",
		Short: "Move the control plane of a Shoot to another Seed",
		Example: `  hortus move shoot demo -n garden-dev --to local-2
  hortus move shoot demo -n garden-dev --to local-2 --source-is-dead`,
	}
	cmd.AddCommand(newMoveShootCommand(&command{clock: clock.RealClock{}}))
	return cmd
}

// NewDrainCommand returns 'hortus drain'.
func NewDrainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Move all control planes of a Seed to other Seeds",
		Example: `  hortus drain seed local-1
  hortus drain seed local-1 --to local-2 --parallel 10`,
	}
	cmd.AddCommand(newDrainSeedCommand(&command{clock: clock.RealClock{}}))
	return cmd
}

func (c *command) addFlags(cmd *cobra.Command) {
	c.access.AddFlags(cmd.Flags())
	output.AddFlag(cmd, &c.output, "table", "json", "yaml")
	cmd.Flags().BoolVar(&c.sourceIsDead, "source-is-dead", false,
		"declare that the Seed is gone: the destination takes over from the last backup, without the Seed")
	cmd.Args = cobra.ExactArgs(1)
	seeds := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return c.complete(cmd, &corev1beta1.SeedList{}, begun)
	}
	if err := cmd.RegisterFlagCompletionFunc("to", seeds); err != nil {
		panic(err) // The flag is defined by both commands.
	}
}

// connect returns a client of the garden.
func (c *command) connect() (client.WithWatch, error) {
	config, err := c.access.RESTConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1beta1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	garden, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	return garden, nil
}

// complete completes names of objects.
func (c *command) complete(
	cmd *cobra.Command, list client.ObjectList, begun string, opts ...client.ListOption,
) ([]string, cobra.ShellCompDirective) {
	garden, err := c.connect()
	if err != nil || garden.List(cmd.Context(), list, opts...) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	switch l := list.(type) {
	case *corev1beta1.SeedList:
		for i := range l.Items {
			names = append(names, l.Items[i].Name)
		}
	case *corev1beta1.ShootList:
		for i := range l.Items {
			names = append(names, l.Items[i].Name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, begun) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// bind binds a Shoot to a Seed and returns the result.
func (c *command) bind(
	ctx context.Context, garden client.Client, s *corev1beta1.Shoot, to string,
) (*corev1beta1.Shoot, error) {
	data, err := bindingPatch(s, to, c.sourceIsDead)
	if err != nil {
		return nil, err
	}
	bound, patch := &corev1beta1.Shoot{ObjectMeta: s.ObjectMeta}, client.RawPatch(types.MergePatchType, data)
	if err := garden.SubResource("binding").Patch(ctx, bound, patch); err != nil {
		return nil, fmt.Errorf("bind Shoot %s/%s to Seed %s: %w", s.Namespace, s.Name, to, err)
	}
	return bound, nil
}

// bindingPatch returns the patch that moves a Shoot. A declaration that the source is dead names the source, so that it
// applies to no other Seed; it is omitted if no Seed has started operations on the Shoot.
func bindingPatch(s *corev1beta1.Shoot, to string, sourceIsDead bool) ([]byte, error) {
	patch := map[string]any{"spec": map[string]any{"seedName": to}}
	if on := ptr.Deref(s.Status.SeedName, ""); sourceIsDead && on != "" {
		annotations := map[string]any{corev1beta1.AnnotationSourceIsDead: on}
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	return json.Marshal(patch)
}

// confirm makes the user type a name. Input from a file is accepted only if the file is a terminal.
func confirm(ctx context.Context, in io.Reader, out io.Writer, name, purpose string) error {
	if file, isFile := in.(*os.File); isFile && !term.IsTerminal(int(file.Fd())) {
		return errors.New("nothing is moved: no terminal for the confirmation; --yes skips it")
	}
	fmt.Fprintf(out, "Type %s to %s: ", name, purpose)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // Input before the end of the file counts.
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return errors.New("nothing is moved: interrupted")
	case line := <-typed:
		if line != name {
			return errors.New("nothing is moved: the name does not match; --yes skips the confirmation")
		}
		return nil
	}
}

// Result is the outcome of one move, in JSON and YAML output.
type Result struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// To is the Seed that the Shoot is bound to, or would have been bound to.
	To    string `json:"to,omitempty"`
	State State  `json:"state"`
	// TookSeconds is how long the command has observed the move.
	TookSeconds float64 `json:"tookSeconds,omitempty"`
	Message     string  `json:"message,omitempty"`
}

// show prints results in the chosen format.
func (c *command) show(out io.Writer, results []Result) error {
	switch c.output {
	case "json":
		data, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, string(data))
		return err
	case "yaml":
		data, err := yaml.Marshal(results)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tSHOOT\tTO\tSTATE\tTOOK\tMESSAGE")
	for _, r := range results {
		took := ""
		if r.TookSeconds > 0 {
			took = (time.Duration(r.TookSeconds * float64(time.Second))).Round(100 * time.Millisecond).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Namespace, r.Name, r.To, r.State, took, r.Message)
	}
	return w.Flush()
}
