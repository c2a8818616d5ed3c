//go:build landscape

package e2e

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestStatusIsAccurate creates a Shoot with credentials that the cloud rejects. It fails and waits for its owner,
// who corrects them and requests a retry. Then the API server is stopped and started again. Status and label report
// each state.
func TestStatusIsAccurate(t *testing.T) {
	story(t, firstSeed)
	const name, secret = "truth", "truth-cloud"
	garden := kubeconfigOf("garden")
	key := kubectl(t, garden, "-n", projectNS, "get", "secret", "local-cloud", "-o", "jsonpath={.data.secretKey}")
	credentials := []string{"create", "secret", "generic", secret}
	for _, field := range []string{"endpoint", "accessKey", "ca.crt"} {
		value, err := base64.StdEncoding.DecodeString(kubectl(t, garden, "-n", projectNS, "get", "secret", "local-cloud",
			"-o", "jsonpath={.data."+strings.ReplaceAll(field, ".", `\.`)+"}"))
		if err != nil {
			t.Fatal(err)
		}
		credentials = append(credentials, "--from-literal="+field+"="+string(value))
	}
	kubectl(t, garden, append(credentials, "--from-literal=secretKey=wrong", "-n", projectNS)...)
	applyTestdata(t, garden, "own-credentials.yaml", "")
	t.Cleanup(func() {
		kubectl(t, garden, "-n", projectNS, "delete", "credentialsbinding,secret", secret)
	})

	manifest := strings.NewReplacer("name: demo", "name: "+name, "credentialsBindingName: local",
		"credentialsBindingName: "+secret, "\nspec:\n", "\nspec:\n  seedName: local-1\n").
		Replace(example(t, "shoot.yaml"))
	if out, err := applyText(t, garden, manifest); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Cleanup(func() { deleteShoot(t, name) })

	var failed *unstructured.Unstructured
	step(t, "a Shoot whose credentials the cloud rejects fails, with the reason, and is not retried", func(t *testing.T) {
		failed = awaitShoot(t, name, "a failed creation", func(o *unstructured.Unstructured) bool {
			return lastOperation(o, "state") == "Failed" && statusLabel(o) == "unhealthy"
		})
		if codes := codesOf(failed); !slices.Contains(codes, "ERR_INFRA_UNAUTHENTICATED") {
			t.Errorf("the error has codes %v", codes)
		}
		if text := statusText(failed); !strings.Contains(text, "access key") {
			t.Errorf("the status does not report the error:\n%s", text)
		}
		out := kubectl(t, garden, "-n", projectNS, "get", "shoot", name)
		if !strings.Contains(out, "Create Failed") || !strings.Contains(out, "unhealthy") {
			t.Errorf("the list says:\n%s", out)
		}
		out = kubectl(t, garden, "-n", projectNS, "get", "shoot", name, "-o", "wide")
		if !strings.Contains(out, "access key") {
			t.Errorf("the wide list does not say why:\n%s", out)
		}
	})
	step(t, "a requested retry succeeds", func(t *testing.T) {
		patch := fmt.Sprintf(`{"data": {"secretKey": %q}}`, key)
		kubectl(t, garden, "-n", projectNS, "patch", "secret", secret, "-p", patch)
		now := awaitShoot(t, name, "its status", func(o *unstructured.Unstructured) bool { return o != nil })
		if got, want := lastOperation(now, "lastUpdateTime"), lastOperation(failed, "lastUpdateTime"); got != want {
			t.Errorf("it was retried at %s after it had failed at %s", got, want)
		}
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation=retry")
		awaitShoot(t, name, "success and health", func(o *unstructured.Unstructured) bool {
			return succeeded(o) && statusLabel(o) == "healthy" && allWell(o)
		})
	})
	step(t, "the status shows that the API server is down, and that it is back", func(t *testing.T) {
		seed, namespace := adminOf(seedOf(t, name)), "shoot--dev--"+name
		kubectl(t, seed, "-n", namespace, "scale", "deployment", "kube-apiserver", "--replicas=0")
		down := awaitShoot(t, name, "APIServerAvailable to be False", func(o *unstructured.Unstructured) bool {
			return conditionOf(o, "conditions", "APIServerAvailable")["status"] == "False" && statusLabel(o) == "unhealthy"
		})
		t.Logf("it says: %v", conditionOf(down, "conditions", "APIServerAvailable")["message"])
		kubectl(t, seed, "-n", namespace, "scale", "deployment", "kube-apiserver", "--replicas=1")
		awaitShoot(t, name, "health", func(o *unstructured.Unstructured) bool {
			return statusLabel(o) == "healthy" && allWell(o)
		})
	})
}
