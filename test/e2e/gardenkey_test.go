//go:build landscape

package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// keyRunbook is the runbook by which an operator rotates the garden's key.
const keyRunbook = "docs/runbooks/rotate-the-gardens-key.md"

// gardenGap bounds the time in which the garden acknowledges no write while its API server is replaced. One of two
// servers is always ready; the rest is for new connections on a busy machine.
const gardenGap = 10 * time.Second

// internalSecrets are of a kind that the garden encrypts.
var internalSecrets = schema.GroupVersionResource{
	Group: "core.gardener.cloud", Version: "v1beta1", Resource: "internalsecrets",
}

// checkGardenKeyRotates rotates the key with which the garden encrypts, while a client writes to the garden: all
// acknowledged writes can be read, and another 'hortus up' keeps the new key. It returns a check of the written
// objects, for later.
func checkGardenKeyRotates(t *testing.T) (checkWritten func()) {
	t.Helper()
	garden := kubeconfigOf("garden")
	written := dynamicClient(t, garden).Resource(internalSecrets).Namespace(projectNS)
	before := gardenKeys(t)
	w := startGardenWriter(t)
	w.awaitMore(t, 5)
	w.during(t, "the garden's key is rotated", gardenGap, func() { typeRunbook(t, keyRunbook, "Rotate") })
	w.end()

	keys := gardenKeys(t)
	if len(keys) != 2 || keys[0] == before[0] || keys[1] != before[0] {
		t.Errorf("the garden has keys %v, before %v; want a new one and the first of the old ones", keys, before)
	}
	const object = "jsonpath={.metadata.resourceVersion} {.data}"
	secret := kubectl(t, garden, "-n", "garden", "get", "secret", "hortus-apiserver-encryption", "-o", object)
	const pods = "jsonpath={.items[*].metadata.uid}"
	running := kubectl(t, garden, "-n", "garden", "get", "pods", "-l", "app=hortus-apiserver", "-o", pods)
	hortus(t, "up")
	if again := kubectl(t, garden, "-n", "garden", "get", "secret", "hortus-apiserver-encryption", "-o",
		object); again != secret {
		t.Error("'hortus up' has changed the Secret with the key")
	}
	if again := kubectl(t, garden, "-n", "garden", "get", "pods", "-l", "app=hortus-apiserver", "-o",
		pods); again != running {
		t.Errorf("'hortus up' has replaced the API server: pods %s instead of %s", again, running)
	}
	checkWritten = func() {
		t.Helper()
		list, err := written.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, item := range list.Items {
			found[item.GetName()] = true
		}
		for _, name := range w.acked {
			if !found[name] {
				t.Errorf("InternalSecret %s was acknowledged, but is lost", name)
			}
		}
		for _, kind := range []string{"shootstates", "controllerregistrations", "controllerdeployments"} {
			kubectl(t, garden, "get", kind, "-A", "-o", "name")
		}
	}
	checkWritten()
	t.Cleanup(func() {
		for _, name := range w.acked {
			err := written.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("delete InternalSecret %s: %v", name, err)
				return
			}
		}
	})
	return checkWritten
}

// gardenKeys are the names of the garden's keys in the order of its encryption configuration.
func gardenKeys(t *testing.T) []string {
	t.Helper()
	out := kubectl(t, kubeconfigOf("garden"), "-n", "garden", "get", "secret", "hortus-apiserver-encryption", "-o", "json")
	var secret struct{ Data map[string][]byte }
	if err := json.Unmarshal([]byte(out), &secret); err != nil {
		t.Fatal(err)
	}
	config := string(secret.Data["encryption.yaml"])
	var keys []string
	for _, match := range regexp.MustCompile(`name: (key\d+)`).FindAllStringSubmatch(config, -1) {
		if !slices.Contains(keys, match[1]) { // Resources may have separate configurations.
			keys = append(keys, match[1])
		}
	}
	if len(keys) == 0 || !strings.Contains(config, "secretbox") {
		t.Fatal("the garden has no key")
	}
	return keys
}
