package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/drain"
	machinecontroller "github.com/gardener/machine-controller-manager/pkg/util/provider/machinecontroller"
	machineoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/options"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/machinecontrol"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/credentials"
)

// Options configure one process. The durations are the library's and are overridden by those of a pool.
type Options struct {
	machinecontrol.Process
	NodeConditions string // Comma-separated; True makes a machine unhealthy.
	Machines       machineoptions.SafetyOptions
}

// DefaultOptions are the library's defaults, with shorter periods, since instances are created and deleted in seconds.
func DefaultOptions() Options {
	return Options{
		Process: machinecontrol.Process{
			Name: Name, HealthAddress: fmt.Sprintf(":%d", HealthPort), MetricsAddress: metricsAddress, LeaderElect: true,
		},
		NodeConditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure",
		Machines: machineoptions.SafetyOptions{
			MachineCreationTimeout:      metav1.Duration{Duration: worker.DefaultMachineTimeout},
			MachineHealthTimeout:        metav1.Duration{Duration: worker.DefaultMachineTimeout},
			MachineDrainTimeout:         metav1.Duration{Duration: drain.DefaultMachineDrainTimeout},
			MachineInPlaceUpdateTimeout: metav1.Duration{Duration: 20 * time.Minute},
			MaxEvictRetries:             drain.DefaultMaxEvictRetries,
			PvDetachTimeout:             metav1.Duration{Duration: 30 * time.Second},
			// Per pod a drain waits for this time at most until its volumes are attached to another node, which takes two or
			// three seconds unless there is no other node, as when all machines are deleted.
			PvReattachTimeout:                        metav1.Duration{Duration: 10 * time.Second},
			MachineSafetyOrphanVMsPeriod:             metav1.Duration{Duration: 5 * time.Minute},
			MachineSafetyAPIServerStatusCheckPeriod:  metav1.Duration{Duration: time.Minute},
			MachineSafetyAPIServerStatusCheckTimeout: metav1.Duration{Duration: 30 * time.Second},
		},
	}
}

// Run runs the controller until ctx ends or it fails permanently.
func Run(ctx context.Context, opts Options) error {
	return opts.Process.Run(ctx, func(ctx context.Context, c *machinecontrol.Clusters) error {
		return runController(ctx, opts, c)
	})
}

// runController runs the library's controller of machines until ctx ends.
func runController(ctx context.Context, opts Options, c *machinecontrol.Clusters) error {
	version, err := targetVersion(c.Target)
	if err != nil {
		return err
	}
	machines := c.MachineCaches.Machine().V1alpha1()
	wake := &wakeups{MachineInformer: machines.Machines()}
	driver := &Driver{
		Clock: clock.RealClock{},
		Cloud: CloudFor(&credentials.Clients{}, func(api *cloud.Client) { wake.watchCloud(ctx, api) }),
	}
	controller, err := machinecontroller.NewController(c.Namespace, c.Machines.MachineV1alpha1(), c.Control, c.Target,
		driver, c.TargetCaches, c.ControlCaches.Core().V1().Secrets(), machines.MachineClasses(), wake, c.Recorder,
		opts.Machines, opts.NodeConditions, "", version)
	if err != nil {
		return fmt.Errorf("set up controller of machines: %w", err)
	}
	if err := wake.watchSteps(machines.MachineClasses()); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	c.Start(ctx)
	// Like that of the other half, the library's Run never returns.
	go controller.Run(machinecontrol.Workers, ctx.Done())
	<-ctx.Done()
	return nil
}

func targetVersion(c kubernetes.Interface) (*semver.Version, error) {
	info, err := c.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read version of the target cluster: %w", err)
	}
	version, err := semver.NewVersion(info.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("read version of the target cluster: %w", err)
	}
	return version, nil
}
