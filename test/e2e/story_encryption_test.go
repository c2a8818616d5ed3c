//go:build landscape

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// encryptionGap bounds the time in which no write is acknowledged while API servers are replaced. On an idle machine it
// is below a second, which is the goal; a busy machine may need longer for a request.
const encryptionGap = 10 * time.Second

// TestEncryptionAtRest changes the encrypted resources and the provider, back and forth, while a client writes: all
// objects must always be readable.
func TestEncryptionAtRest(t *testing.T) {
	story(t, firstSeed)
	const name = "vault"
	newShoot(t, "shoot-workerless.yaml", name)
	kubeconfig := shootKubeconfig(t, name)
	kubectl(t, kubeconfig, "create", "configmap", "before", "--from-literal=a=b")
	w := startWriter(t, kubeconfig)

	config := func(cipher string, resources ...string) string {
		quoted := []string{}
		for _, r := range resources {
			quoted = append(quoted, `"`+r+`"`)
		}
		return fmt.Sprintf(`{"spec":{"kubernetes":{"kubeAPIServer":{"encryptionConfig":{"resources":[%s],"provider":{"type":%q}}}}}}`,
			strings.Join(quoted, ","), cipher)
	}
	readable := func(cipher string, resources ...string) {
		t.Helper()
		kubectl(t, kubeconfig, "get", "configmaps,secrets", "-A", "-o", "name")
		if out := kubectl(t, kubeconfig, "get", "configmap", "before", "-o", "jsonpath={.data.a}"); out != "b" {
			t.Errorf("the ConfigMap from before has %q", out)
		}
		out := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o",
			"jsonpath={.status.credentials.encryptionAtRest}")
		if !strings.Contains(out, fmt.Sprintf("%q", cipher)) || strings.Contains(out, "configmaps") != (len(resources) > 0) {
			t.Errorf("status.credentials.encryptionAtRest = %s, want %s and %v", out, cipher, resources)
		}
	}
	change := func(what, cipher string, resources ...string) {
		t.Helper()
		w.during(t, what, encryptionGap, func() { patchShoot(t, name, config(cipher, resources...)) })
		readable(cipher, resources...)
	}
	readable("aescbc")
	change("a resource is added", "aescbc", "configmaps")
	w.during(t, "the key is rotated", encryptionGap, func() {
		kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "shoot", name,
			"gardener.cloud/operation=rotate-etcd-encryption-key")
		awaitShoot(t, name, "the rotation of the key is complete", func(o *unstructured.Unstructured) bool {
			phase, _, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", "etcdEncryptionKey", "phase")
			return phase == "Completed" && succeeded(o)
		})
	})
	readable("aescbc", "configmaps")
	change("it is removed", "aescbc")
	change("another cipher", "secretbox")
	w.during(t, "a change is taken back", encryptionGap, func() {
		kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p", config("aescbc"))
		awaitShoot(t, name, "the change is being rolled out", func(o *unstructured.Unstructured) bool {
			return strings.Contains(lastOperation(o, "description"), "Deployment kube-apiserver")
		})
		patchShoot(t, name, config("secretbox"))
	})
	readable("secretbox")
	t.Logf("%d acknowledged writes", w.check(t, kubeconfig))
}
