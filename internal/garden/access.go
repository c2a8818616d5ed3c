// Package garden gives commands for users access to the garden.
package garden

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// DefaultStateDir is the directory with the state of this machine's landscape.
const DefaultStateDir = "/var/lib/hortus"

// KubeconfigPath returns the path of the administrator's kubeconfig of a landscape's cluster: "garden" or a Seed's
// name.
func KubeconfigPath(stateDir, cluster string) string {
	return filepath.Join(stateDir, "landscape", cluster, "admin.kubeconfig")
}

// Access holds the flags for access to the garden.
type Access struct {
	Kubeconfig string
	Context    string
	StateDir   string
}

// AddFlags registers the flags.
func (a *Access) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the garden; empty means $KUBECONFIG, then the landscape of this machine")
	flags.StringVar(&a.Context, "context", "", "context of the kubeconfig; empty means its current one")
	flags.StringVar(&a.StateDir, "state-dir", DefaultStateDir, "folder with the state of this machine's landscape")
}

// RESTConfig returns the client configuration for the garden: from the flag, else $KUBECONFIG, else the landscape of
// this machine.
func (a *Access) RESTConfig() (*rest.Config, error) {
	path := a.Kubeconfig
	if path == "" {
		path = os.Getenv("KUBECONFIG")
	}
	if path == "" {
		path = KubeconfigPath(a.StateDir, "garden")
		if _, err := os.Stat(path); err != nil {
			return nil,
				fmt.Errorf("no garden found: give --kubeconfig, set KUBECONFIG, or bring up a landscape with 'hortus up' (%w)", err)
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(path)},
		&clientcmd.ConfigOverrides{CurrentContext: a.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	return config, nil
}
