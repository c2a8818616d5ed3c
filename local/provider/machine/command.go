package machine

import (
	"fmt"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// name of the process, its user agent and its Lease.
const name = "machine-controller-manager"

// NewCommand returns the command that runs the machines of one Shoot.
func NewCommand() *cobra.Command {
	opts := DefaultOptions()
	var controlKubeconfig, targetKubeconfig string
	cmd := &cobra.Command{
		Use:   name,
		Short: "Run the machines of one Shoot on the local cloud",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if controlKubeconfig == inCluster {
				controlKubeconfig = ""
			}
			control, err := clientcmd.BuildConfigFromFlags("", controlKubeconfig)
			if err != nil {
				return fmt.Errorf("kubeconfig of the control cluster: %w", err)
			}
			target, err := clientcmd.BuildConfigFromFlags("", targetKubeconfig)
			if err != nil {
				return fmt.Errorf("kubeconfig of the target cluster: %w", err)
			}
			return Run(cmd.Context(), opts, rest.AddUserAgent(control, name), rest.AddUserAgent(target, name))
		},
	}
	f := cmd.Flags()
	f.StringVar(&controlKubeconfig, "control-kubeconfig", inCluster,
		"path of a kubeconfig of the cluster with the machine objects; "+inCluster+" means the one the process runs in")
	f.StringVar(&targetKubeconfig, "target-kubeconfig", "", "path of a kubeconfig of the cluster the machines join")
	f.StringVar(&opts.Namespace, "namespace", "", "namespace of the machine objects")
	f.StringVar(&opts.HealthAddress, "health-address", opts.HealthAddress, "address of /healthz and /readyz")
	f.StringVar(&opts.MetricsAddress, "metrics-address", opts.MetricsAddress, "address of /metrics")
	f.BoolVar(&opts.LeaderElect, "leader-elect", opts.LeaderElect,
		"elect a leader, so that an old pod does not interfere with a new one")
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
	for _, required := range []string{"target-kubeconfig", "namespace"} {
		utilruntime.Must(cmd.MarkFlagRequired(required))
	}
	return cmd
}

// inCluster is the library's name for the cluster that the process runs in.
const inCluster = "inClusterConfig"
