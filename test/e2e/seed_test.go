//go:build landscape

package e2e

import (
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"hortus.dev/hortus/internal/pki"
)

// checkKubeProxyKeepsServices restarts the kube-proxy of the garden's cluster, which uses nftables. It compares the
// existing rules with the desired ones at its start, and once an hour.
func checkKubeProxyKeepsServices(t *testing.T) {
	garden := kubeconfigOf("garden")
	inMachine := func(command string) (string, error) {
		return run(t, filepath.Join(repository, ".build",
			"hortus"), "cloud", "instances", "exec", "garden", "--", "sh", "-c", command)
	}
	reach := func() {
		t.Helper()
		for _, service := range []struct{ namespace, name, port string }{{"default", "kubernetes", "443"},
			{"kube-system", "kube-dns", "53"}} {
			address := kubectl(t, garden, "-n", service.namespace, "get", "service", service.name, "-o",
				"jsonpath={.spec.clusterIP}")
			if out, err := inMachine("nc -w 5 " + address + " " + service.port + " </dev/null"); err != nil {
				t.Errorf("Service %s can't be reached at %s: %v\n%s", service.name, address, err, out)
			}
		}
	}
	reach()
	kubectl(t, garden, "-n", "kube-system", "delete", "pods", "-l", "k8s-app=kube-proxy")
	kubectl(t, garden, "-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", withPatience)
	eventually(t, "the first comparison", func() error {
		out, err := inMachine("wget -q -O - http://127.0.0.1:10249/metrics")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		const synced = `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} `
		if _, value, found := strings.Cut(out, synced); !found || strings.HasPrefix(value, "0\n") {
			return errors.New("kube-proxy has not written its rules yet")
		}
		return nil
	})
	reach()
}

// checkSeedsAreConfined uses the credentials of a gardenlet as an attacker who controls its seed would: only its own
// Seed can be read; objects of the garden and of the other seed can neither be read nor written nor claimed.
func checkSeedsAreConfined(t *testing.T) {
	home := strings.TrimSpace(kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", "demo", "-o",
		"jsonpath={.spec.seedName}"))
	for seed, other := range map[string]string{"local-1": "local-2", "local-2": "local-1"} {
		kubeconfig := gardenletKubeconfig(t, seed)
		if out := kubectl(t, kubeconfig, "get", "seed", seed, "-o",
			"name"); strings.TrimSpace(out) != "seed.core.gardener.cloud/"+seed {
			t.Errorf("the gardenlet of %s sees its Seed as:\n%s", seed, out)
		}
		forbidden := [][]string{
			{"get", "secrets", "-A"},
			{"get", "secret", "-n", "garden", "hortus-apiserver"},
			{"get", "shoots", "-A"},
			{"get", "backupentries", "-A"},
			{"get", "secrets", "-n", "seed-" + other},
			{"get", "lease", "-n", "gardener-system-seed-lease", other},
			{"annotate", "seed", other, "confirmation.gardener.cloud/deletion=true"},
			{"delete", "seed", other, "--dry-run=server"},
			{"create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", "--user=gardener.cloud:system:seed:" + seed},
			{"-n", projectNS, "delete", "shoot", "demo", "--dry-run=server"},
		}
		ofShoot := [][]string{
			{"get", "shoot", "demo"},
			{"get", "shootstate", "demo"},
			{"get", "internalsecret", "demo.ca-client"},
			{"annotate", "shoot", "demo", "gardener.cloud/operation=reconcile"},
			{"patch", "shoot", "demo", "--subresource=binding", "--type=merge", "-p", `{"spec":{"seedName":"` + seed + `"}}`},
			{"patch", "shoot", "demo", "--subresource=status", "--type=merge", "-p", `{"status":{"seedName":"` + seed + `"}}`},
			{"create", "--raw", "/apis/core.gardener.cloud/v1beta1/namespaces/" + projectNS + "/shoots/demo/adminkubeconfig",
				"-f", adminKubeconfigRequest(t)},
		}
		if seed == home {
			kubectl(t, kubeconfig, "-n", projectNS, "get", "shoot", "demo")
		} else {
			for _, args := range ofShoot {
				forbidden = append(forbidden, append([]string{"-n", projectNS}, args...))
			}
		}
		for _, args := range forbidden {
			if out, err := kubectlE(t, kubeconfig, args...); err == nil || !refusedByAPI(out) {
				t.Errorf("the gardenlet of %s may %s: %v\n%s", seed, strings.Join(args, " "), err, out)
			}
		}
	}
}

// checkIdentity compares the identity of the garden with those of the Shoot demo in the garden and in itself.
func checkIdentity(t *testing.T) {
	garden := kubeconfigOf("garden")
	own := func(kubeconfig string) string {
		return kubectl(t, kubeconfig, "-n", "kube-system", "get", "configmap", "cluster-identity", "-o",
			"jsonpath={.data.origin} {.data.cluster-identity}")
	}
	origin, identity, _ := strings.Cut(own(garden), " ")
	if origin != "gardener-apiserver" || identity == "" {
		t.Fatalf("the garden is %q with the identity %q", origin, identity)
	}
	shoot := kubectl(t, garden, "-n", projectNS, "get", "shoot", "demo", "-o", "jsonpath={.status.clusterIdentity}")
	if inside := own(shootKubeconfig(t, "demo")); inside != "shoot "+shoot || !strings.HasSuffix(shoot, "-"+identity) {
		t.Errorf("the Shoot says that it is %q, its status %q, the garden is %q", inside, shoot, identity)
	}
}

// checkGardenletRenews has a gardenlet renew its certificate for the garden at once, and checks that it cannot get
// another gardenlet's.
func checkGardenletRenews(t *testing.T) {
	const seed = "local-1"
	garden, cluster := kubeconfigOf("garden"), adminOf(seed)
	certificate := func() string {
		out, err := kubectlE(t, cluster, "-n", "garden", "get", "secret", "gardenlet-kubeconfig", "-o",
			"jsonpath={.data.kubeconfig}")
		if err != nil {
			return "" // The first renewal creates it.
		}
		return out
	}
	restarts := func() string {
		return kubectl(t, cluster, "-n", "garden", "get", "pods", "-l", "app=gardenlet", "-o",
			"jsonpath={.items[*].metadata.uid}{.items[*].status.containerStatuses[*].restartCount}")
	}
	before, pods := certificate(), restarts()
	kubectl(t, garden, "annotate", "seed", seed, "gardener.cloud/operation=renew-kubeconfig")
	eventually(t, "another certificate, and an end of the operation", func() error {
		operation := kubectl(t, garden, "get", "seed", seed, "-o",
			`jsonpath={.metadata.annotations.gardener\.cloud/operation}`)
		if now := certificate(); now == "" || now == before || operation != "" {
			return fmt.Errorf("operation %q, a certificate: %t, another one: %t", operation, now != "", now != before)
		}
		return nil
	})
	eventually(t, "the Seed to say when the new certificate expires", func() error {
		config, err := clientcmd.Load([]byte(kubectl(t, cluster, "-n", "garden", "get", "secret", "gardenlet-kubeconfig",
			"-o", `go-template={{.data.kubeconfig | base64decode}}`)))
		if err != nil {
			return err
		}
		cert, err := pki.ParseCert(config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientCertificateData)
		if err != nil {
			return err
		}
		have := kubectl(t, garden, "get", "seed", seed, "-o", "jsonpath={.status.clientCertificateExpirationTimestamp}")
		if want := cert.NotAfter.UTC().Format(time.RFC3339); have != want {
			return fmt.Errorf("the Seed says %q, the certificate expires at %q", have, want)
		}
		return nil
	})
	if now := restarts(); now != pods {
		t.Errorf("pods of the gardenlet and their restarts: %s, before %s", now, pods)
	}
	subject := pkix.Name{
		CommonName: "gardener.cloud:system:seed:local-2", Organization: []string{"gardener.cloud:system:seeds"},
	}
	name, err := createRequest(t, gardenletKubeconfig(t, seed), "kubernetes.io/kube-apiserver-client", subject)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, garden, "wait", "--for=condition=Denied", "csr/"+name, withPatience)
}

// adminKubeconfigRequest writes a request for an administrator's kubeconfig.
func adminKubeconfigRequest(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "request.json")
	body := `{"apiVersion":"authentication.gardener.cloud/v1alpha1","kind":"AdminKubeconfigRequest","spec":{"expirationSeconds":600}}`
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// gardenletKubeconfig writes a kubeconfig with the credentials of a seed's gardenlet. Address and CA are those of the
// administrator.
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
	return as(t, kubeconfigOf("garden"), "gardenlet",
		&clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM})
}
