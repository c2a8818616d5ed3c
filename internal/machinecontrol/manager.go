package machinecontrol

import (
	"context"
	"fmt"
	"time"

	deploymentcontroller "github.com/gardener/machine-controller-manager/pkg/controller"
	deploymentoptions "github.com/gardener/machine-controller-manager/pkg/options"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/extension/worker"
)

// managerName is the name of the process with the controllers that all providers need.
const managerName = "machine-controller-manager"

// NewCommand returns the command that runs the controllers of machine deployments and sets.
func NewCommand() *cobra.Command {
	p := NewManager()
	cmd := &cobra.Command{
		Use:   managerName,
		Short: "Run the machine deployments of one Shoot",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return p.Run(cmd.Context(), RunManager) },
	}
	p.AddFlags(cmd)
	return cmd
}

// NewManager returns the process with its default addresses.
func NewManager() *Process {
	return &Process{
		Name: managerName, HealthAddress: ":10258", MetricsAddress: "127.0.0.1:8080", LeaderElect: true,
	}
}

// RunManager runs the library's controllers of machine deployments and sets, and what they lack for updates in place,
// until ctx ends: the replacement of machines whose update has failed, and changes of size during an update.
func RunManager(ctx context.Context, c *Clusters) error {
	machines := c.MachineCaches.Machine().V1alpha1()
	deployments, err := deploymentcontroller.NewController(c.Namespace, c.Machines.MachineV1alpha1(), c.Control, c.Target,
		c.TargetCaches, machines.Machines(), machines.MachineSets(), machines.MachineDeployments(), c.Recorder,
		deploymentoptions.SafetyOptions{ // The library's defaults.
			SafetyUp: 2, SafetyDown: 1, MachineSafetyOvershootingPeriod: metav1.Duration{Duration: time.Minute},
		}, true)
	if err != nil {
		return fmt.Errorf("set up controllers of machine deployments: %w", err)
	}
	replacements := newReplacements(c.Machines.MachineV1alpha1().Machines(c.Namespace), worker.DefaultMachineTimeout,
		clock.RealClock{})
	if err := replacements.watch(machines.Machines().Informer()); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	scaling := newScaling(c.Machines.MachineV1alpha1().MachineDeployments(c.Namespace),
		c.Machines.MachineV1alpha1().MachineSets(c.Namespace))
	if err := scaling.watch(machines.MachineDeployments().Informer(), machines.MachineSets().Informer()); err != nil {
		return fmt.Errorf("watch machine deployments and sets: %w", err)
	}
	c.Start(ctx)
	// The library's Run waits for its workers before it closes the queues they wait for, so it never returns: the process
	// ends without it. The next process continues the work in progress.
	go deployments.Run(Workers, ctx.Done())
	go replacements.run(ctx)
	go scaling.run(ctx)
	<-ctx.Done()
	return nil
}
