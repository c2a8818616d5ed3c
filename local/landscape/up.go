package landscape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/components"
	"hortus.dev/hortus/local/images"
	"hortus.dev/hortus/local/machineinit/unit"
)

// Options are the folders and the settings of the landscape.
type Options struct {
	// StateDir keeps state across restarts of the machine, RunDir sockets and records of processes.
	StateDir, RunDir string
	// Artifacts holds built programs and images; Components and Module are the source folders they are built from.
	Artifacts, Components, Module string
	// SeedNodes is the number of nodes of each seed; 0 means unchanged.
	SeedNodes int
	// Out receives the progress messages.
	Out io.Writer
}

func (o Options) paths() hostPaths { return hostPaths{stateDir: o.StateDir, runDir: o.RunDir} }

func (o *Options) addFlags(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&o.StateDir, "state-dir", garden.DefaultStateDir, "folder with the landscape's state")
	f.StringVar(&o.RunDir, "run-dir", "/run/hortus", "folder with sockets")
	f.StringVar(&o.Artifacts, "artifacts", ".build", "folder with built programs and images")
	f.StringVar(&o.Components, "components", "local/components", "folder with the sources of components")
	f.StringVar(&o.Module, "module", ".", "folder of this project's sources")
}

// absolute makes the folders independent of the working directory, since processes that outlive this one use them.
func (o *Options) absolute() error {
	for _, path := range []*string{&o.StateDir, &o.RunDir, &o.Artifacts, &o.Components, &o.Module} {
		resolved, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = resolved
	}
	return nil
}

// NewUpCommand returns 'hortus up'.
func NewUpCommand() *cobra.Command {
	var o Options
	command := &cobra.Command{
		Use:   "up",
		Short: "Bring up a garden, two seeds and a local cloud on this machine",
		Long: `Bring up a whole landscape on this machine: the local cloud, a garden and two seeds.

Every step ensures what it is there for: a second run repairs what is broken and changes nothing else. Programs and
images that are missing are built first.

Each seed has one node. With --seed-nodes=3 it has three, in different zones, as control planes need that tolerate the failure of
a node or zone. Nodes can be taken away again when no control planes of Shoots are on them.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.Out = command.OutOrStdout()
			if command.Flags().Changed("seed-nodes") && (o.SeedNodes < 1 || o.SeedNodes > maxSeedNodes) {
				return fmt.Errorf("--seed-nodes: must be between 1 and %d: %d", maxSeedNodes, o.SeedNodes)
			}
			return Up(command.Context(), o)
		},
	}
	o.addFlags(command)
	command.Flags().IntVar(&o.SeedNodes, "seed-nodes", 0,
		fmt.Sprintf("nodes of each seed, 1 to %d, which control planes with a failure tolerance need (default: as many as there are, at first 1)",
			maxSeedNodes))
	return command
}

// Up brings up the landscape. It is refused while another Up or Down works on the same state folder.
func Up(ctx context.Context, o Options) error {
	start := time.Now()
	if err := o.absolute(); err != nil {
		return err
	}
	unlock, err := lockState(o.StateDir)
	if errors.Is(err, fs.ErrPermission) { // Only root may; Preflight reports that, and all other problems.
		err = cmp.Or(Preflight(o.StateDir, false), err)
	}
	if err != nil {
		return err
	}
	defer unlock()
	_, err = unit.NewClient(o.paths().socket()).List(ctx)
	if err := Preflight(o.StateDir, err == nil); err != nil {
		return err
	}
	p := &Progress{Out: o.Out, Clock: clock.RealClock{}}
	if err := buildArtifacts(ctx, o, p); err != nil {
		return err
	}
	var c *cloud.Client
	var about *cloud.About
	var store map[string]string
	err = p.Step(ctx, "containerd and the local cloud run", func(ctx context.Context) error {
		if c, about, err = ensureCloud(ctx, o); err != nil {
			return err
		}
		store, err = ensureBackupStore(ctx, o, c, about)
		return err
	})
	if err != nil {
		return err
	}
	running := make([]*kubernetesCluster, len(clusters))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, spec := range clusters {
		group.Go(func() error {
			return p.Step(groupCtx, fmt.Sprintf("cluster %q runs on its instance", spec.name),
				func(ctx context.Context) (err error) {
					running[i], err = ensureCluster(ctx, o, c, about, spec, store)
					return err
				})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	l := &installation{options: o, cloud: c, about: about, store: store, garden: running[0], seeds: running, progress: p}
	if err := l.run(ctx); err != nil {
		return err
	}
	kubectl, err := components.Select(components.All(), "kubectl")
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, nextSteps, time.Since(start).Round(time.Second), o.Artifacts, kubectl[0].Dir(o.Artifacts),
		garden.KubeconfigPath(o.StateDir, "garden"), olderVersions())
	return nil
}

const nextSteps = `
The landscape is up after %s. Next:

  export PATH=%s:%s:$PATH
  export KUBECONFIG=%s
  kubectl apply -f examples/shoot.yaml
  kubectl get shoots -n garden-dev -w
  hortus kubeconfig shoot demo -n garden-dev > demo.kubeconfig
  kubectl --kubeconfig demo.kubeconfig get nodes

Kubernetes %s are built when a Shoot first uses them, which takes some minutes each, or now by 'make components'.
`

// olderVersions are the Kubernetes versions that up does not build.
func olderVersions() string {
	versions := slices.DeleteFunc(slices.Clone(components.KubernetesVersions),
		func(v string) bool { return v == components.KubernetesDefaultVersion })
	return strings.Join(versions, " and ")
}

func buildArtifacts(ctx context.Context, o Options, p *Progress) error {
	// Checked first, not after minutes of compiling.
	if err := components.EnsurePackages(ctx, o.Out, components.MachinePackages...); err != nil {
		return err
	}
	builder := &components.Builder{Source: o.Components, Artifacts: o.Artifacts, Progress: o.Out}
	err := p.Step(ctx, "components are built", func(ctx context.Context) error {
		return builder.Ensure(ctx, "containerd", "runc", "etcd", "kubernetes-"+components.KubernetesDefaultVersion, "kubectl")
	})
	if err != nil {
		return err
	}
	return p.Step(ctx, "images are built", func(ctx context.Context) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return images.Build(ctx, images.Options{Artifacts: o.Artifacts, Components: o.Components, Module: o.Module,
			HortusBinary: self, Images: images.Defaults(), Progress: o.Out})
	})
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(corev1beta1.AddToScheme(scheme))
	return scheme
}
