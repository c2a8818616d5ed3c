package apiserverfiles

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KeyKubeconfig is the key of a Secret that holds a kubeconfig.
const KeyKubeconfig = "kubeconfig"

// maxKubeconfig bounds a kubeconfig in bytes, as many of them become one Secret.
const maxKubeconfig = 32 << 10

// Kubeconfig says what is wrong with a kubeconfig that an API server of a Shoot is to use, given the content of its
// Secret.
//
// Its author has no rights in the control plane. So it must hold everything itself: a program that it names would run
// there, and a file that it names would be the control plane's, private keys among them, and be sent to wherever it
// says.
func Kubeconfig(data map[string][]byte) error {
	content := data[KeyKubeconfig]
	if len(content) == 0 {
		return fmt.Errorf("the Secret must have the key %q", KeyKubeconfig)
	}
	if len(content) > maxKubeconfig {
		return fmt.Errorf("key %q of the Secret has %d bytes, must have at most %d", KeyKubeconfig, len(content),
			maxKubeconfig)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return fmt.Errorf("key %q of the Secret cannot be read", KeyKubeconfig) // The error may quote what is secret.
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return fmt.Errorf("key %q of the Secret: current-context must be the name of a context", KeyKubeconfig)
	}
	errs := []error{server(config.Clusters[current.Cluster])}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		errs = append(errs, refuse("cluster", name, map[string]bool{
			"certificate-authority": config.Clusters[name].CertificateAuthority != "",
		}))
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		user := config.AuthInfos[name]
		errs = append(errs, refuse("user", name, map[string]bool{
			"client-certificate": user.ClientCertificate != "", "client-key": user.ClientKey != "",
			"tokenFile": user.TokenFile != "",
			"exec":      user.Exec != nil, "auth-provider": user.AuthProvider != nil,
		}))
	}
	if current.AuthInfo != "" && config.AuthInfos[current.AuthInfo] == nil {
		errs = append(errs, fmt.Errorf("current context: user not found: %q", current.AuthInfo))
	}
	err = utilerrors.NewAggregate(errs)
	if err == nil {
		err = certificates(*config)
	}
	if err != nil {
		return fmt.Errorf("key %q of the Secret: %w", KeyKubeconfig, err)
	}
	return nil
}

// certificates says whether the server could use those of a kubeconfig, which names no files.
func certificates(config clientcmdapi.Config) error {
	client, err := clientcmd.NewDefaultClientConfig(config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return err
	}
	_, err = rest.TLSConfigFor(client)
	return err
}

// server says what is wrong with the address of the webhook.
func server(cluster *clientcmdapi.Cluster) error {
	if cluster == nil {
		return errors.New("the current context has no cluster")
	}
	if u, err := url.Parse(cluster.Server); err != nil || u.Scheme != "https" || u.Host == "" {
		return errors.New("the cluster of the current context must have a server that begins with https://")
	}
	return nil
}

func refuse(what, name string, given map[string]bool) error {
	var errs []error
	for _, field := range []string{
		"certificate-authority", "client-certificate", "client-key", "tokenFile", "exec", "auth-provider",
	} {
		if given[field] {
			errs = append(errs, fmt.Errorf("%s %q must not have %s, only data that the kubeconfig holds itself", what, name,
				field))
		}
	}
	return utilerrors.NewAggregate(errs)
}
