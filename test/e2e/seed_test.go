//go:build landscape

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// checkSeedsAreConfined uses the credentials of a gardenlet as somebody would who has taken over its seed: its own Seed can be
// read, nothing of the garden and of the other seed can.
func checkSeedsAreConfined(t *testing.T) {
	home := strings.TrimSpace(kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", "demo", "-o", "jsonpath={.spec.seedName}"))
	for _, seed := range []string{"local-1", "local-2"} {
		kubeconfig := gardenletKubeconfig(t, seed)
		if out := kubectl(t, kubeconfig, "get", "seed", seed, "-o", "name"); strings.TrimSpace(out) != "seed.core.gardener.cloud/"+seed {
			t.Errorf("the gardenlet of %s sees its Seed as:\n%s", seed, out)
		}
		forbidden := [][]string{
			{"get", "secrets", "-A"},
			{"get", "secret", "-n", "garden", "hortus-apiserver"},
			{"get", "shoots", "-A"},
			{"-n", projectNS, "delete", "shoot", "demo", "--dry-run=server"},
		}
		if shoot := []string{"-n", projectNS, "get", "shoot", "demo"}; seed != home {
			forbidden = append(forbidden, shoot)
		} else {
			kubectl(t, kubeconfig, shoot...)
		}
		for _, args := range forbidden {
			if out, err := kubectlE(t, kubeconfig, args...); err == nil || !strings.Contains(out, "Forbidden") {
				t.Errorf("the gardenlet of %s may %s: %v\n%s", seed, strings.Join(args, " "), err, out)
			}
		}
	}
}

// gardenletKubeconfig writes the access that the landscape has given to a seed's gardenlet. Address and authority are those of
// the administrator.
func gardenletKubeconfig(t *testing.T, seed string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(stateDir, "landscape", "gardenlet-"+seed+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var pair struct{ CertPEM, KeyPEM []byte }
	if err := json.Unmarshal(data, &pair); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(kubeconfigOf("garden"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	}
	path := filepath.Join(t.TempDir(), "gardenlet.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
