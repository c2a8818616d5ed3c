package env

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Etcd starts an etcd of its own for a test and returns its address.
func Etcd(t testing.TB) *url.URL {
	t.Helper()
	etcd, err := startEtcd(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Stop(); err != nil {
			t.Errorf("stop etcd: %v", err)
		}
	})
	return etcd.URL
}

func startEtcd(dir string) (*envtest.Etcd, error) {
	program, _, err := binaries()
	if err != nil {
		return nil, err
	}
	if program, err = leash(dir, program); err != nil {
		return nil, err
	}
	etcd := &envtest.Etcd{Path: program, StartTimeout: startTimeout, StopTimeout: stopTimeout}
	etcd.Configure().Set("unsafe-no-fsync", "true")
	if err := etcd.Start(); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	return etcd, nil
}

// KubeAPIServer is a kube-apiserver that a test uses in addition to its environment.
type KubeAPIServer struct {
	// Config is the access of an administrator.
	Config *rest.Config
	// Client reads and writes without a cache, with the kinds of Kubernetes.
	Client client.Client

	server *envtest.APIServer
}

// StartKubeAPIServer starts a kube-apiserver with further flags on an etcd. It ends with the test unless it is stopped
// before.
func StartKubeAPIServer(t testing.TB, etcd *url.URL, flags map[string]string) *KubeAPIServer {
	t.Helper()
	k, err := startKubeAPIServer(t.TempDir(), etcd, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Stop(t) })
	return k
}

func startKubeAPIServer(dir string, etcd *url.URL, flags map[string]string) (*KubeAPIServer, error) {
	_, program, err := binaries()
	if err != nil {
		return nil, err
	}
	if program, err = leash(dir, program); err != nil {
		return nil, err
	}
	k := &KubeAPIServer{server: &envtest.APIServer{
		Path: program, EtcdURL: etcd, StartTimeout: startTimeout, StopTimeout: stopTimeout,
	}}
	for name, value := range flags {
		k.server.Configure().Set(name, value)
	}
	if err := k.server.Start(); err != nil {
		return nil, fmt.Errorf("start kube-apiserver: %w", err)
	}
	base := &rest.Config{
		Host:            fmt.Sprintf("https://%s", k.server.ListenAddr.HostPort()),
		TLSClientConfig: rest.TLSClientConfig{CAData: k.server.CA}, QPS: -1,
	}
	if k.Config, err = k.server.Authn.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}},
		base); err != nil {
		return nil, errors.Join(fmt.Errorf("make access to kube-apiserver: %w", err), k.stop())
	}
	if k.Client, err = client.New(k.Config, client.Options{}); err != nil {
		return nil, errors.Join(fmt.Errorf("make client of kube-apiserver: %w", err), k.stop())
	}
	return k, nil
}

// Stop ends the server; a second call does nothing.
func (k *KubeAPIServer) Stop(t testing.TB) {
	t.Helper()
	if err := k.stop(); err != nil {
		t.Error(err)
	}
}

func (k *KubeAPIServer) stop() error {
	if k.server == nil {
		return nil
	}
	server := k.server
	k.server = nil
	if err := server.Stop(); err != nil {
		return fmt.Errorf("stop kube-apiserver: %w", err)
	}
	return nil
}
