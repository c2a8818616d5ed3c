package env

import (
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
	program, _, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	if program, err = leash(t.TempDir(), program); err != nil {
		t.Fatal(err)
	}
	etcd := &envtest.Etcd{Path: program, StartTimeout: startTimeout, StopTimeout: stopTimeout}
	etcd.Configure().Set("unsafe-no-fsync", "true")
	if err := etcd.Start(); err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(func() {
		if err := etcd.Stop(); err != nil {
			t.Errorf("stop etcd: %v", err)
		}
	})
	return etcd.URL
}

// KubeAPIServer is a kube-apiserver that a test has started in addition to its environment.
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
	_, program, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	if program, err = leash(t.TempDir(), program); err != nil {
		t.Fatal(err)
	}
	k := &KubeAPIServer{server: &envtest.APIServer{
		Path: program, EtcdURL: etcd, StartTimeout: startTimeout, StopTimeout: stopTimeout,
	}}
	for name, value := range flags {
		k.server.Configure().Set(name, value)
	}
	if err := k.server.Start(); err != nil {
		t.Fatalf("start kube-apiserver: %v", err)
	}
	t.Cleanup(func() { k.Stop(t) })
	base := &rest.Config{
		Host:            fmt.Sprintf("https://%s", k.server.ListenAddr.HostPort()),
		TLSClientConfig: rest.TLSClientConfig{CAData: k.server.CA}, QPS: -1,
	}
	if k.Config, err = k.server.Authn.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}},
		base); err != nil {
		t.Fatalf("make access to kube-apiserver: %v", err)
	}
	if k.Client, err = client.New(k.Config, client.Options{}); err != nil {
		t.Fatalf("make client of kube-apiserver: %v", err)
	}
	return k
}

// Stop ends the server; a second call does nothing.
func (k *KubeAPIServer) Stop(t testing.TB) {
	t.Helper()
	if k.server == nil {
		return
	}
	server := k.server
	k.server = nil
	if err := server.Stop(); err != nil {
		t.Errorf("stop kube-apiserver: %v", err)
	}
}
