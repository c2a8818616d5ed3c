// Package test rotates the key of a real API server.
package test

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/internal/garden/keyrotation"
	"hortus.dev/hortus/test/env"
)

// mounted is the folder of the API server's encryption configuration, and started the revision that it is started for.
// The only test of this package simulates the kubelet.
var mounted, started string

func TestMain(m *testing.M) {
	env.Main(m, env.WithGardenAPI(func(o *apiserver.Options) {
		if mounted == "" {
			// The directory of the serving certificate is removed with the environment.
			mounted = filepath.Dir(o.Recommended.SecureServing.ServerCert.CertKey.CertFile)
			if err := mount(keyrotation.InitialSecret("garden", firstKey).Data); err != nil {
				panic(err)
			}
		}
		o.Recommended.Etcd.EncryptionProviderConfigFilepath = filepath.Join(mounted, keyrotation.KeyConfig)
		o.EncryptionRevision = started
	}))
}

// mount writes the files of a Secret.
func mount(data map[string][]byte) error {
	for key, content := range data {
		if err := os.WriteFile(filepath.Join(mounted, key), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
