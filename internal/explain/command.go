package explain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/cli/kubeconfig"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/output"
	"hortus.dev/hortus/internal/plan"
)

const (
	// requestTimeout bounds each request: a server that does not answer is part of the explanation.
	requestTimeout = 10 * time.Second
	// noticeAfter is how long a part may take before a notice says what is being read.
	noticeAfter = 2 * time.Second
	// accessFor is how long the credentials for the Shoot last; the minimum.
	accessFor = 10 * time.Minute
)

type command struct {
	access         garden.Access
	namespace      string
	output         string
	seedKubeconfig string

	config *rest.Config // Of the garden.
	scheme *runtime.Scheme
}

// NewCommand returns 'hortus explain'.
func NewCommand() *cobra.Command {
	c := &command{}
	cmd := &cobra.Command{
		Use:   "explain SHOOT|shoot/NAME|seed/NAME...",
		Short: "Say why a Shoot or a Seed is not as it should be, and what to do",
		Long: `Say for each condition, constraint and error of a Shoot why, from the Shoot down to the pod, the machine or the
call of the cloud, and what to do about it. Operators get the same about a Seed: its gardenlet, its extensions and its
BackupBuckets. Nothing is changed.

Owners of the Shoot see what the garden and the Shoot itself know: its nodes, and its system components. What is
wrong in the control plane is shown to operators, who have a kubeconfig of the Seed. On the machine of a landscape,
that of the landscape is used.`,
		Example: `  hortus explain demo -n garden-dev
  hortus explain demo -n garden-dev -o yaml
  hortus explain demo -n garden-dev --seed-kubeconfig seed.yaml
  hortus explain seed/local-1`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	c.access.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "garden-dev", "namespace of the Shoot's project")
	output.AddFlag(cmd, &c.output, "table", "json", "yaml")
	cmd.Flags().StringVar(&c.seedKubeconfig, "seed-kubeconfig", "",
		"kubeconfig of the Seed; empty means that of the landscape of this machine, if it is the right one")
	return cmd
}

// target is what is to be explained.
type target struct{ kind, name string }

// parse reads arguments: the names of Shoots, or kinds and names.
func parse(args []string) (targets []target, err error) {
	var errs []error
	for _, arg := range args {
		kind, name, hasKind := strings.Cut(arg, "/")
		if !hasKind {
			kind, name = "shoot", arg
		}
		switch kind {
		case "shoot", "shoots":
			targets = append(targets, target{"Shoot", name})
		case "seed", "seeds":
			targets = append(targets, target{"Seed", name})
		default:
			errs = append(errs, fmt.Errorf("unsupported value: %q (NAME or shoot/NAME of a Shoot, seed/NAME of a Seed)", arg))
			continue
		}
		if name == "" || strings.Contains(name, "/") {
			errs = append(errs, fmt.Errorf("invalid value: %q (it needs one name)", arg))
		}
	}
	return targets, errors.Join(errs...)
}

func (c *command) run(cmd *cobra.Command, args []string) error {
	targets, err := parse(args)
	if err != nil {
		return err
	}
	if c.config, err = c.access.RESTConfig(); err != nil {
		return err
	}
	if c.scheme, err = newScheme(); err != nil {
		return err
	}
	api, err := c.client(c.config)
	if err != nil {
		return fmt.Errorf("connect to the garden: %w", err)
	}
	explanations := []*Explanation{}
	var errs []error
	for _, t := range targets {
		explain := c.explainShoot
		if t.kind == "Seed" {
			explain = c.explainSeed
		}
		e, err := explain(cmd, api, t.name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		explanations = append(explanations, e)
	}
	if c.output != "table" {
		errs = append(errs, plan.Encode(cmd.OutOrStdout(), c.output, explanations))
	} else {
		errs = append(errs, writeText(cmd.OutOrStdout(), explanations, time.Now()))
	}
	return errors.Join(errs...)
}

func (c *command) explainShoot(cmd *cobra.Command, api client.Client, name string) (*Explanation, error) {
	facts, err := readShootInGarden(cmd.Context(), api, c.namespace, name)
	if err != nil {
		return nil, err
	}
	of := " of " + c.namespace + "/" + name
	reading(cmd, "the control plane"+of, func() { c.readSeed(cmd.Context(), facts) })
	reading(cmd, "nodes and system components"+of, func() { c.readShoot(cmd.Context(), facts) })
	return OfShoot(facts, time.Now()), nil
}

func (c *command) explainSeed(cmd *cobra.Command, api client.Client, name string) (*Explanation, error) {
	facts, err := readSeedInGarden(cmd.Context(), api, name)
	if err != nil {
		return nil, err
	}
	reading(cmd, "the cluster of Seed "+name, func() {
		if err := c.readSeedItself(cmd.Context(), facts); err != nil {
			facts.Unread = append(facts.Unread, fmt.Sprintf("The cluster of the Seed: %v", err))
		}
	})
	return OfSeed(facts, time.Now()), nil
}

// readSeedItself adds the facts of the Seed's cluster. As long as no gardenlet has reported which cluster that is, it
// is the one that the user names.
func (c *command) readSeedItself(ctx context.Context, f *SeedFacts) error {
	right := func(cluster client.Client) (bool, error) { return isSeed(ctx, cluster, f.Seed) }
	if f.Seed.Status.ClusterIdentity == nil {
		if c.seedKubeconfig == "" {
			return errors.New("no gardenlet has reported yet which it is, so it needs --seed-kubeconfig")
		}
		right = func(client.Client) (bool, error) { return true, nil }
	}
	cluster, err := c.seedCluster(right, "is not that of Seed "+f.Seed.Name)
	if err == nil {
		f.Cluster, err = readSeedCluster(ctx, cluster, f.Installations)
	}
	return err
}

// reading reads, and says what if it takes long.
func reading(cmd *cobra.Command, what string, read func()) {
	notice := time.AfterFunc(noticeAfter, func() { fmt.Fprintf(cmd.ErrOrStderr(), "Reading %s ...\n", what) })
	defer notice.Stop()
	read()
}

func (c *command) client(config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	return client.New(config, client.Options{Scheme: c.scheme})
}

// readSeed adds the facts of the control plane.
func (c *command) readSeed(ctx context.Context, f *ShootFacts) {
	if f.Shoot.Spec.SeedName == nil || f.Shoot.Status.TechnicalID == "" {
		return
	}
	seed, err := c.seedCluster(func(seed client.Client) (bool, error) { return hasControlPlane(ctx, seed, f.Shoot) },
		"has no control plane of this Shoot")
	if err == nil {
		f.ControlPlane, err = readControlPlane(ctx, seed, f.Shoot.Status.TechnicalID)
	}
	if err != nil {
		f.ControlPlane = nil
		f.Unread = append(f.Unread, fmt.Sprintf("The control plane: %v", err))
	}
}

// seedCluster returns the cluster that is the right one. otherwise describes a cluster that is not.
func (c *command) seedCluster(right func(client.Client) (bool, error), otherwise string) (client.Client, error) {
	paths := []string{c.seedKubeconfig}
	if c.seedKubeconfig == "" {
		var err error
		if paths, err = filepath.Glob(garden.KubeconfigPath(c.access.StateDir, "*")); err != nil {
			return nil, err
		}
	}
	var errs []error
	for _, path := range paths {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seed, err := c.client(config)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if is, err := right(seed); is {
			return seed, nil
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	if c.seedKubeconfig != "" && len(errs) == 0 {
		return nil, fmt.Errorf("--seed-kubeconfig: invalid value: %q (the cluster %s)", c.seedKubeconfig, otherwise)
	}
	if len(errs) == 0 {
		return nil, errors.New("it needs --seed-kubeconfig, the kubeconfig of an operator of the Seed")
	}
	return nil, errors.Join(errs...)
}

// readShoot adds the facts of the Shoot itself.
func (c *command) readShoot(ctx context.Context, f *ShootFacts) {
	if f.Shoot.Status.IsHibernated || f.Shoot.Status.TechnicalID == "" {
		return
	}
	data, err := kubeconfig.Shoot(ctx, c.config, f.Shoot.Namespace, f.Shoot.Name, true, accessFor)
	if err == nil {
		f.Cluster, err = c.cluster(ctx, data)
	}
	if err != nil {
		f.Cluster = nil
		f.Unread = append(f.Unread, fmt.Sprintf("The Shoot itself: %v", err))
	}
}

func (c *command) cluster(ctx context.Context, kubeconfig []byte) (*Cluster, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	shoot, err := c.client(config)
	if err != nil {
		return nil, err
	}
	return readCluster(ctx, shoot)
}
