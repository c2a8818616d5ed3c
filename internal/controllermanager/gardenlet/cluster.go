package gardenlet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/chart"
)

// Cluster is one that is to become a seed.
type Cluster struct {
	client.Client
	// Capabilities returns what it offers to charts.
	Capabilities func(context.Context) (chart.Capabilities, error)
}

// requestTimeout bounds each request to a cluster, which may not answer.
const requestTimeout = 30 * time.Second

// Connect returns a cluster from its kubeconfig.
func Connect(kubeconfig []byte) (Cluster, error) {
	loaded, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return Cluster{}, invalid{fmt.Errorf("load kubeconfig: %w", err)}
	}
	if err := harmless(loaded); err != nil {
		return Cluster{}, invalid{err}
	}
	config, err := clientcmd.NewDefaultClientConfig(*loaded, nil).ClientConfig()
	if err != nil {
		return Cluster{}, invalid{fmt.Errorf("load kubeconfig: %w", err)}
	}
	config.Timeout = requestTimeout
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return Cluster{}, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return Cluster{}, err
	}
	return Cluster{Client: c, Capabilities: func(context.Context) (chart.Capabilities, error) {
		return capabilities(d)
	}}, nil
}

// harmless refuses a kubeconfig that would make the controller manager run a program, read its own files, or trust
// everybody.
func harmless(config *clientcmdapi.Config) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		user := config.AuthInfos[name]
		for _, part := range []struct {
			path    string
			present bool
		}{
			{"exec", user.Exec != nil},
			{"auth-provider", user.AuthProvider != nil},
			{"client-certificate", user.ClientCertificate != ""},
			{"client-key", user.ClientKey != ""},
			{"tokenFile", user.TokenFile != ""},
		} {
			if part.present {
				errs = append(errs, fmt.Errorf("users[%s].user.%s: forbidden: credentials have to be in the kubeconfig itself",
					name, part.path))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		cluster := config.Clusters[name]
		if cluster.CertificateAuthority != "" {
			errs = append(errs, fmt.Errorf("clusters[%s].cluster.certificate-authority: forbidden: the CA bundle has to be in "+
				"the kubeconfig itself", name))
		}
		if cluster.InsecureSkipTLSVerify {
			errs = append(errs, fmt.Errorf("clusters[%s].cluster.insecure-skip-tls-verify: forbidden", name))
		}
		if server, err := url.Parse(cluster.Server); err != nil || server.Scheme != "https" || server.Host == "" {
			errs = append(errs, fmt.Errorf("clusters[%s].cluster.server: must be an https URL: %q", name, cluster.Server))
		}
	}
	return errors.Join(errs...)
}

// capabilities reads what an API server offers to charts. API versions whose servers do not answer are missing.
func capabilities(d discovery.DiscoveryInterface) (chart.Capabilities, error) {
	version, err := d.ServerVersion()
	if err != nil {
		return chart.Capabilities{}, fmt.Errorf("read version of the cluster: %w", err)
	}
	groups, resources, err := d.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return chart.Capabilities{}, fmt.Errorf("read API versions of the cluster: %w", err)
	}
	return chart.CapabilitiesOf(*version, groups, resources), nil
}
