package garden

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
	"hortus.dev/hortus/internal/pki"
)

func newBootstrapKubeconfigCommand() *cobra.Command {
	var access garden.Access
	var server string
	valid := 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "bootstrap-kubeconfig SEED",
		Short: "Make a kubeconfig with which the gardenlet of a seed gets its first certificate",
		Long: `Make a token for the gardenlet of a seed, and print a kubeconfig with it. The gardenlet uses it once, to request its first
certificate for the garden; whoever has it until then can become the gardenlet of this seed, and of no other.

It is the value bootstrapKubeconfig of the chart "gardenlet".`,
		Example: `  hortus garden bootstrap-kubeconfig north > north.yaml
  hortus garden bootstrap-kubeconfig north --server https://garden.example.com --validity 1h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if problems := validation.IsDNS1123Subdomain(args[0]); len(problems) > 0 {
				return fmt.Errorf("SEED: not a name: %q (%s)", args[0], problems[0])
			}
			if valid < time.Minute {
				return fmt.Errorf("--validity: too short: %s (at least 1m)", valid)
			}
			config, err := access.RESTConfig()
			if err != nil {
				return err
			}
			kubeconfig, err := newBootstrapKubeconfig(config, server)
			if err != nil {
				return err
			}
			c, err := connect(&access)
			if err != nil {
				return err
			}
			end := time.Now().Add(valid)
			token, secret := bootstraptoken.New(args[0], end)
			if err := c.Create(cmd.Context(), secret); err != nil {
				return fmt.Errorf("create Secret %s: %w", client.ObjectKeyFromObject(secret), err)
			}
			kubeconfig.Token = token
			out, err := kubeconfig.Render()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "# For the first certificate of the gardenlet of Seed %s, once, until %s.\n%s", args[0],
				end.UTC().Format(time.RFC3339), out)
			return err
		},
	}
	access.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&server, "server", "",
		"address of the garden as the seed reaches it; empty means that of your kubeconfig")
	cmd.Flags().DurationVar(&valid, "validity", valid, "how long the token may be used")
	return cmd
}

// newBootstrapKubeconfig returns a kubeconfig of the garden without credentials.
func newBootstrapKubeconfig(config *rest.Config, server string) (pki.Kubeconfig, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return pki.Kubeconfig{}, fmt.Errorf("read CA bundle of the garden: %w", err)
	}
	out := pki.Kubeconfig{Name: "garden", Server: config.Host, TLSServerName: config.ServerName, CAPEM: config.CAData}
	if server != "" {
		out.Server, out.TLSServerName = server, ""
	}
	return out, nil
}
