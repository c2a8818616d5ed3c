package env

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/apiserver/seedauthorizer"
	"hortus.dev/hortus/internal/pki"
)

// AuthorizationCaller is the user as which the kube-apiserver calls the seed authorizer. A test binds the necessary
// role to it.
const AuthorizationCaller = "kube-apiserver-seed-authorizer"

// seedAuthorizer holds the files that the kube-apiserver needs before our API server runs.
type seedAuthorizer struct {
	listener net.Listener
	// ca issues the serving certificate of our API server and the client certificate of the kube-apiserver.
	ca *pki.CA
	// configuration and clientCA are paths of files.
	configuration, clientCA string
}

func newSeedAuthorizer(dir string) (*seedAuthorizer, error) {
	ca, err := pki.NewCA("hortus-apiserver", clock.RealClock{})
	if err != nil {
		return nil, err
	}
	pair, err := ca.Issue(pki.Request{CommonName: AuthorizationCaller, Usage: pki.Client})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for our API server: %w", err)
	}
	s := &seedAuthorizer{
		listener: listener, ca: ca, configuration: filepath.Join(dir, "authorization.yaml"),
		clientCA: filepath.Join(dir, "authorization-ca.crt"),
	}
	kubeconfig, err := pki.Kubeconfig{
		Name: "seed-authorizer", Server: "https://" + listener.Addr().String() + seedauthorizer.Path, CAPEM: ca.CertPEM,
		Client: pair,
	}.Render()
	if err != nil {
		return nil, err
	}
	configuration, err := charts.FS.ReadFile("garden/files/authorization.yaml")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "seed-authorizer.kubeconfig")
	configuration = bytes.ReplaceAll(configuration, []byte("/etc/kubernetes/seed-authorizer.kubeconfig"), []byte(path))
	// A test that moves something sees the effect at once.
	configuration = bytes.ReplaceAll(configuration, []byte("TTL: 5s"), []byte("TTL: 1ms"))
	configuration = bytes.ReplaceAll(configuration, []byte("TTL: 1s"), []byte("TTL: 1ms"))
	for path, content := range map[string][]byte{
		s.configuration: configuration, path: kubeconfig, s.clientCA: ca.CertPEM,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
	}
	return s, nil
}
