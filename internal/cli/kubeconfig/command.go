// Package kubeconfig has the command that issues kubeconfigs of the garden, the Seeds and Shoots.
package kubeconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"hortus.dev/hortus/internal/garden"
)

// NewCommand returns 'hortus kubeconfig'.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig of the garden, a seed or a Shoot",
		Example: `  hortus kubeconfig garden > garden.yaml
  hortus kubeconfig shoot demo -n garden-dev > demo.yaml
  hortus kubeconfig shoot demo -n garden-dev --resolve > demo.yaml 2> demo.hosts`,
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
		resolve    bool
		expiration time.Duration
	)
	command := &cobra.Command{
		Use:   "shoot NAME",
		Short: "Request a short-lived kubeconfig of a Shoot from the garden",
		Long: `Request a short-lived kubeconfig of a Shoot from the garden.

It has the address of the server, and separately the name in the server's certificate, so that it works without DNS.
Clients that ignore tls-server-name need --resolve.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			config, err := access.RESTConfig()
			if err != nil {
				return err
			}
			data, err := Shoot(command.Context(), config, namespace, args[0], viewer, expiration)
			if err != nil {
				return err
			}
			if resolve {
				var hosts string
				if data, hosts, err = resolved(data); err != nil {
					return fmt.Errorf("name the server in the kubeconfig of Shoot %s/%s: %w", namespace, args[0], err)
				}
				if _, err := fmt.Fprint(command.ErrOrStderr(), hosts); err != nil {
					return err
				}
			}
			_, err = command.OutOrStdout().Write(data)
			return err
		},
	}
	access.AddFlags(command.Flags())
	command.Flags().StringVarP(&namespace, "namespace", "n", "garden-dev", "namespace of the Shoot's project")
	command.Flags().BoolVar(&viewer, "viewer", false, "request read-only credentials")
	command.Flags().BoolVar(&resolve, "resolve", false,
		"have the server's name in the kubeconfig, and print the line for a hosts file that resolves it to standard error")
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

// resolved replaces the addresses of servers by the names in their certificates, and returns the lines of a hosts file
// that resolve these names. Servers that are named already stay.
func resolved(kubeconfig []byte) (named []byte, hosts string, err error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, "", err
	}
	lines := map[string]bool{}
	for name, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, "", fmt.Errorf("clusters[%s].server: %w", name, err)
		}
		if cluster.TLSServerName == "" || net.ParseIP(server.Hostname()) == nil {
			continue
		}
		lines[server.Hostname()+" "+cluster.TLSServerName+"\n"] = true
		if port := server.Port(); port != "" {
			server.Host = net.JoinHostPort(cluster.TLSServerName, port)
		} else {
			server.Host = cluster.TLSServerName
		}
		cluster.Server, cluster.TLSServerName = server.String(), ""
	}
	named, err = clientcmd.Write(*config)
	return named, strings.Join(slices.Sorted(maps.Keys(lines)), ""), err
}
