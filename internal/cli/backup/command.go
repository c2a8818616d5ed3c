// Package backup has the commands for backups of Shoots: list, take one now, restore. They need only the garden, with
// the permissions of a member of the Shoot's project.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/output"
)

// command holds the flags and dependencies that all subcommands share.
type command struct {
	clock     clock.PassiveClock
	access    garden.Access
	namespace string
	output    string
}

// NewCommand returns 'hortus backup'.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "List the backups of a Shoot, take one now, or restore one",
		Example: `  hortus backup list demo -n garden-dev
  hortus backup now demo -n garden-dev
  hortus backup restore demo -n garden-dev --to 2026-01-31T15:04:05Z`,
	}
	c := clock.RealClock{}
	cmd.AddCommand(newListCommand(&command{clock: c}), newNowCommand(&command{clock: c}),
		newRestoreCommand(&command{clock: c}))
	return cmd
}

func (c *command) addFlags(cmd *cobra.Command) {
	c.access.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "garden-dev", "namespace of the Shoot's project")
	output.AddFlag(cmd, &c.output, "table", "json", "yaml")
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = c.completeShoots
}

// connect returns a client of the garden.
func (c *command) connect() (client.WithWatch, error) {
	config, err := c.access.RESTConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1beta1.AddToScheme(scheme), backupv1alpha1.AddToScheme(scheme),
		eventsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	garden, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	return garden, nil
}

// completeShoots completes the names of Shoots.
func (c *command) completeShoots(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	garden, err := c.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := &corev1beta1.ShootList{}
	if err := garden.List(cmd.Context(), list, client.InNamespace(c.namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, begun) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (c *command) shoot(ctx context.Context, garden client.Client, name string) (*corev1beta1.Shoot, error) {
	s := &corev1beta1.Shoot{}
	if err := garden.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, s); err != nil {
		return nil, fmt.Errorf("read Shoot %s/%s: %w", c.namespace, name, err)
	}
	return s, nil
}

// backups reads the backups of a Shoot from the garden.
func backups(ctx context.Context, garden client.Client, s *corev1beta1.Shoot) (*backupv1alpha1.ShootBackups, error) {
	found := &backupv1alpha1.ShootBackups{}
	if err := garden.SubResource("backups").Get(ctx, s, found); err != nil {
		return nil, fmt.Errorf("list backups of Shoot %s/%s: %w", s.Namespace, s.Name, err)
	}
	return found, nil
}

// annotate sets an annotation of the Shoot, or removes it if the value is empty.
func annotate(ctx context.Context, garden client.Client, s *corev1beta1.Shoot, name, value string) error {
	set := &value
	if value == "" {
		set = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{name: set}}})
	if err != nil {
		return err
	}
	target := &corev1beta1.Shoot{ObjectMeta: s.ObjectMeta}
	if err := garden.Patch(ctx, target, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("annotate Shoot %s/%s with %s: %w", s.Namespace, s.Name, name, err)
	}
	return nil
}

// await watches the Shoot until the condition holds.
func await(
	ctx context.Context, garden client.WithWatch, s *corev1beta1.Shoot, holds func(*corev1beta1.Shoot) bool,
) error {
	for {
		w, err := garden.Watch(ctx, &corev1beta1.ShootList{}, client.InNamespace(s.Namespace),
			client.MatchingFields{"metadata.name": s.Name})
		if err != nil {
			return fmt.Errorf("watch Shoot %s/%s: %w", s.Namespace, s.Name, err)
		}
		done, err := follow(ctx, w, holds)
		if done || err != nil {
			return err
		}
	}
}

// follow reads one watch until it ends or the condition holds. The watch begins with the current state.
func follow(ctx context.Context, w watch.Interface, holds func(*corev1beta1.Shoot) bool) (done bool, err error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return false, nil
			}
			shoot, ok := e.Object.(*corev1beta1.Shoot)
			switch {
			case e.Type == watch.Deleted:
				return false, errors.New("the Shoot has been deleted")
			case e.Type == watch.Error:
				if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
					return false, err
				}
				return false, nil
			case ok && holds(shoot):
				return true, nil
			}
		}
	}
}

// lastEvent returns the note of a Shoot's newest event with the given reason, "" if there is none.
func lastEvent(ctx context.Context, garden client.Client, s *corev1beta1.Shoot, reason string) string {
	list := &eventsv1.EventList{}
	if err := garden.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
		return ""
	}
	var newest *eventsv1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.UID == s.UID && e.Reason == reason && (newest == nil || when(newest).Before(when(e))) {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Note
}

// show prints a value in the chosen format.
func (c *command) show(out io.Writer, value any, table func(io.Writer)) error {
	switch c.output {
	case "json":
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, string(data))
		return err
	case "yaml":
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}
