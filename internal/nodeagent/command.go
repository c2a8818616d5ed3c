package nodeagent

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/local/machineinit"
)

// Options are the flags of the node agent.
type Options struct {
	ConfigFile    string
	ControlSocket string
	HealthAddress string
	MetricAddress string
}

// NewCommand returns "hortus node-agent".
func NewCommand() *cobra.Command {
	o := Options{}
	command := &cobra.Command{
		Use:   "node-agent",
		Short: "Apply the configuration of a worker pool to the node it runs on",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			raw, err := os.ReadFile(o.ConfigFile)
			if err != nil {
				return fmt.Errorf("read configuration: %w", err)
			}
			configuration, err := config.Parse(raw)
			if err != nil {
				return err
			}
			hostName, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("read host name: %w", err)
			}
			// Kubelets use it in lower case as the name of the node.
			return Run(command.Context(), configuration, strings.ToLower(hostName), o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.ConfigFile, "config", config.File, "configuration file")
	flags.StringVar(&o.ControlSocket, "control-socket", machineinit.ControlSocket,
		"socket of the process that runs this node's units, on hosts without systemd")
	flags.StringVar(&o.HealthAddress, "health-address", "127.0.0.1:2751", "address for /healthz and /readyz; 0 for none")
	flags.StringVar(&o.MetricAddress, "metrics-address", "127.0.0.1:2752", "address for /metrics; 0 for none")
	return command
}
