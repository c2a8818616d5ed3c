// Package kubeconfig has the command that issues kubeconfigs of the garden, the Seeds and Shoots.
package kubeconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"hortus.dev/hortus/internal/garden"
)

// NewCommand returns 'hortus kubeconfig'.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig of the garden, a seed or a Shoot",
		Example: `  hortus kubeconfig garden > garden.yaml
  hortus kubeconfig shoot demo -n garden-dev > demo.yaml`,
	}
	command.AddCommand(newClusterCommand("garden", cobra.NoArgs), newClusterCommand("seed", cobra.ExactArgs(1)),
		newShootCommand())
	return command
}

// newClusterCommand returns a command that prints the landscape's kubeconfig of one of its own clusters.
func newClusterCommand(kind string, args cobra.PositionalArgs) *cobra.Command {
	var stateDir string
	use := kind
	if kind == "seed" {
		use = "seed NAME"
	}
	command := &cobra.Command{
		Use:   use,
		Short: "Print the administrator's kubeconfig of the " + kind + " of this machine's landscape",
		Args:  args,
		RunE: func(command *cobra.Command, args []string) error {
			name := kind
			if len(args) == 1 {
				name = args[0]
			}
			data, err := os.ReadFile(garden.KubeconfigPath(stateDir, name))
			if err != nil {
				return fmt.Errorf("read kubeconfig of %s %s: is the landscape up? %w", kind, name, err)
			}
			_, err = command.OutOrStdout().Write(data)
			return err
		},
	}
	command.Flags().StringVar(&stateDir, "state-dir", garden.DefaultStateDir, "folder with the landscape's state")
	return command
}

func newShootCommand() *cobra.Command {
	var (
		access     garden.Access
		namespace  string
		viewer     bool
		expiration time.Duration
	)
	command := &cobra.Command{
		Use:   "shoot NAME",
		Short: "Request a short-lived kubeconfig of a Shoot from the garden",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			config, err := access.RESTConfig()
			if err != nil {
				return err
			}
			data, err := Shoot(command.Context(), config, namespace, args[0], viewer, expiration)
			if err != nil {
				return err
			}
			_, err = command.OutOrStdout().Write(data)
			return err
		},
	}
	access.AddFlags(command.Flags())
	command.Flags().StringVarP(&namespace, "namespace", "n", "garden-dev", "namespace of the Shoot's project")
	command.Flags().BoolVar(&viewer, "viewer", false, "request read-only credentials")
	command.Flags().DurationVar(&expiration, "expiration", time.Hour, "how long the credentials last, 10m to 24h")
	return command
}

// answer is the used part of the response to an Admin- or ViewerKubeconfigRequest.
type answer struct {
	Status struct {
		Kubeconfig []byte `json:"kubeconfig"`
	} `json:"status"`
}

// Shoot requests a kubeconfig of a Shoot from the garden: of an administrator, or of a viewer.
func Shoot(
	ctx context.Context, config *rest.Config, namespace, name string, viewer bool, expiration time.Duration,
) ([]byte, error) {
	kind, subresource := "AdminKubeconfigRequest", "adminkubeconfig"
	if viewer {
		kind, subresource = "ViewerKubeconfigRequest", "viewerkubeconfig"
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &schema.GroupVersion{Group: "core.gardener.cloud", Version: "v1beta1"}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	body := fmt.Sprintf(`{"apiVersion":"authentication.gardener.cloud/v1alpha1","kind":%q,"spec":{"expirationSeconds":%d}}`, kind, int64(expiration.Seconds()))
	result := client.Post().Namespace(namespace).Resource("shoots").Name(name).SubResource(subresource).
		SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx)
	if err := result.Error(); err != nil { // The error of Raw lacks what the API server says.
		return nil, fmt.Errorf("request the kubeconfig of Shoot %s/%s: %w", namespace, name, err)
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("read the answer for Shoot %s/%s: %w", namespace, name, err)
	}
	var got answer
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, fmt.Errorf("read the answer for Shoot %s/%s: %w", namespace, name, err)
	}
	return got.Status.Kubeconfig, nil
}
