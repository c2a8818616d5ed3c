package machine

import (
	"github.com/spf13/cobra"
)

// Name of the process, its user agent and its Lease.
const Name = "machine-controller"

// Ports of the sidecar, which differ from those of the machine-controller-manager in the same pod.
const (
	HealthPort     = 10259
	metricsAddress = "127.0.0.1:8081"
)

// NewCommand returns the command that runs the machines of one Shoot.
func NewCommand() *cobra.Command {
	opts := DefaultOptions()
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Run the machines of one Shoot on the local cloud",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return Run(cmd.Context(), opts) },
	}
	opts.Process.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.NodeConditions, "node-conditions", opts.NodeConditions,
		"comma-separated node conditions that make a machine unhealthy when True")
	f.DurationVar(&opts.Machines.MachineCreationTimeout.Duration, "machine-creation-timeout",
		opts.Machines.MachineCreationTimeout.Duration, "how long a machine may take to join")
	f.DurationVar(&opts.Machines.MachineHealthTimeout.Duration, "machine-health-timeout",
		opts.Machines.MachineHealthTimeout.Duration, "how long a machine may be unhealthy")
	f.DurationVar(&opts.Machines.MachineDrainTimeout.Duration, "machine-drain-timeout",
		opts.Machines.MachineDrainTimeout.Duration, "how long a machine may drain")
	f.DurationVar(&opts.Machines.MachineSafetyOrphanVMsPeriod.Duration, "machine-safety-orphan-vms-period",
		opts.Machines.MachineSafetyOrphanVMsPeriod.Duration, "how often instances without machine are looked for")
	return cmd
}
