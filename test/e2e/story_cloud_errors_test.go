//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestErrorsOfTheCloud creates and deletes a Shoot in a cloud that refuses one request after the other. The status
// shows each error with its code. The operation waits for the owner of the Shoot where only they can help; otherwise it
// continues by itself.
func TestErrorsOfTheCloud(t *testing.T) {
	story(t, firstSeed)
	const name, namespace, fault = "snubbed", "shoot--dev--snubbed", "cloud-errors"
	garden := kubeconfigOf("garden")
	refuse := func(t *testing.T, kind, operation, target string) {
		t.Helper() // Setting a fault again replaces it.
		hortus(t, "cloud", "faults", "set", kind, operation, "--name", fault, "--target", target)
	}
	retry := func(t *testing.T) {
		t.Helper()
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation=retry")
	}
	// The tag is refused when the machine is to be created.
	shoot := strings.Replace(example(t, "shoot.yaml"), "      zones: [local-a]\n", `      zones: [local-a]
      providerConfig:
        apiVersion: local.provider.hortus.dev/v1alpha1
        kind: WorkerConfig
        tags: {"team=a": "true"}
`, 1)

	endFaults := func() {
		_, _ = run(t, filepath.Join(repository, ".build", "hortus"), "cloud", "faults", "delete", fault)
	}
	t.Cleanup(endFaults)
	refuse(t, "unauthorized", "CreateNetwork", namespace)
	applyShootTextOn(t, shoot, name, "local-1")
	t.Cleanup(endFaults) // Before the Shoot is deleted.

	var now *unstructured.Unstructured
	step(t, "missing rights show at once, fail the creation, and are not requested again", func(t *testing.T) {
		awaitShoot(t, name, "the refused request in the progress", func(o *unstructured.Unstructured) bool {
			return lastOperation(o, "state") == "Processing" &&
				strings.Contains(lastOperation(o, "description"), "may not call CreateNetwork")
		})
		now = awaitCode(t, name, "Failed", "ERR_INFRA_UNAUTHORIZED", "may not call CreateNetwork", now)
		notRetried(t, name, fault, now)
	})
	step(t, "a retry runs into the quota, which fails it", func(t *testing.T) {
		refuse(t, "quota", "CreateNetwork", namespace)
		retry(t)
		now = awaitCode(t, name, "Failed", "ERR_INFRA_QUOTA_EXCEEDED", "Quota exceeded", now)
	})
	step(t, "with a larger quota it continues, and is retried while requests are throttled", func(t *testing.T) {
		refuse(t, "rate-limit", "CreateNetwork", namespace)
		now = awaitCode(t, name, "Error", "ERR_INFRA_RATE_LIMITS_EXCEEDED", "too high for CreateNetwork", now)
		retried(t, fault)
	})
	step(t, "it is retried while the cloud has no capacity", func(t *testing.T) {
		refuse(t, "depleted", "CreateNetwork", namespace)
		now = awaitCode(t, name, "Error", "ERR_INFRA_RESOURCES_DEPLETED", "not enough capacity for CreateNetwork", now)
		retried(t, fault)
	})
	step(t, "it is retried while another operation of the cloud is in progress", func(t *testing.T) {
		refuse(t, "busy", "CreateNetwork", namespace)
		now = awaitCode(t, name, "Error", "ERR_RETRYABLE_INFRA_DEPENDENCIES", "CreateNetwork has to wait", now)
		retried(t, fault)
	})
	step(t, "a dependency that only its owner can remove fails it", func(t *testing.T) {
		refuse(t, "dependency", "CreateNetwork", namespace)
		now = awaitCode(t, name, "Failed", "ERR_INFRA_DEPENDENCIES", "CreateNetwork is blocked", now)
	})
	step(t, "a retry gets as far as to the machine, whose configuration the cloud refuses", func(t *testing.T) {
		endFault(t, fault)
		retry(t)
		now = awaitCode(t, name, "Failed", "ERR_CONFIGURATION_PROBLEM", "InvalidParameterValue", now)
	})
	networks := networksOf(t, namespace)
	if len(networks) != 1 {
		t.Fatalf("the cloud has networks %v, want one", networks)
	}
	step(t, "a correction is rolled out without a request, and retried while there is no capacity", func(t *testing.T) {
		refuse(t, "depleted", "CreateInstance", networks[0])
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p",
			`[{"op": "replace", "path": "/spec/provider/workers/0/providerConfig/tags", "value": {"team": "a"}}]`)
		now = awaitCode(t, name, "Error", "ERR_INFRA_RESOURCES_DEPLETED", "not enough capacity for CreateInstance", now)
		retried(t, fault)
	})
	step(t, "it succeeds by itself when there is capacity", func(t *testing.T) {
		endFault(t, fault)
		awaitShoot(t, name, "success and health", func(o *unstructured.Unstructured) bool {
			return succeeded(o) && len(codesOf(o)) == 0 && statusLabel(o) == "healthy" && allWell(o)
		})
	})
	step(t, "a refused deletion fails, and is not requested again", func(t *testing.T) {
		refuse(t, "unauthorized", "DeleteNetwork", networks[0])
		kubectl(t, garden, "-n", projectNS, "annotate", "--overwrite", "shoot", name,
			"confirmation.gardener.cloud/deletion=true")
		kubectl(t, garden, "-n", projectNS, "delete", "shoot", name, "--wait=false")
		now = awaitCode(t, name, "Failed", "ERR_INFRA_UNAUTHORIZED", "may not call DeleteNetwork", now)
		if operation := lastOperation(now, "type"); operation != "Delete" {
			t.Errorf("the operation is %s, want Delete", operation)
		}
		notRetried(t, name, fault, now)
	})
	step(t, "a retry of the deletion succeeds", func(t *testing.T) {
		endFault(t, fault)
		retry(t)
		left := awaitShoot(t, name, "gone", func(o *unstructured.Unstructured) bool {
			return o == nil || lastOperation(o, "state") == "Failed" &&
				lastOperation(o, "lastUpdateTime") != lastOperation(now, "lastUpdateTime")
		})
		if left != nil {
			t.Fatalf("the deletion has failed again: %s", errorsOf(left))
		}
		if left := networksOf(t, namespace); len(left) > 0 {
			t.Errorf("the cloud still has networks %v", left)
		}
	})
}

// awaitCode waits until the operation of a Shoot has the state, and its errors have one code and the text. If it fails
// for another reason than before, it does not wait for this one.
func awaitCode(
	t *testing.T, name, state, code, text string, before *unstructured.Unstructured,
) *unstructured.Unstructured {
	t.Helper()
	now := awaitShoot(t, name, state+" with "+code, func(o *unstructured.Unstructured) bool {
		if o == nil {
			return false
		}
		expected := slices.Equal(codesOf(o), []string{code})
		another := before == nil || lastOperation(o, "lastUpdateTime") != lastOperation(before, "lastUpdateTime")
		return lastOperation(o, "state") == state && expected && statusLabel(o) == "unhealthy" ||
			lastOperation(o, "state") == "Failed" && !expected && another
	})
	errors := errorsOf(now)
	if lastOperation(now, "state") != state || !slices.Contains(codesOf(now), code) || !strings.Contains(errors, text) {
		t.Fatalf("the operation is %s with errors %s; want %s with code %s and text %q", lastOperation(now, "state"),
			errors, state, code, text)
	}
	t.Logf("%s: %s", state, errors)
	return now
}

// errorsOf are the codes and the text of a Shoot's last errors.
func errorsOf(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "lastErrors")
	var out []string
	for _, item := range list {
		entry, _ := item.(map[string]any)
		out = append(out, fmt.Sprintf("%v %v", entry["codes"], entry["description"]))
	}
	return strings.Join(out, "; ")
}

// retried waits until a fault has struck again.
func retried(t *testing.T, fault string) {
	t.Helper()
	before := faultStruck(t, fault)
	eventually(t, "another attempt", func() error {
		if now := faultStruck(t, fault); now <= before {
			return fmt.Errorf("the fault has struck %d times", now)
		}
		return nil
	})
}

// notRetried requires that neither the operation nor the fault changes while the extension renews its Lease twice. It
// does so every 30 s, the longest pause between attempts.
func notRetried(t *testing.T, name, fault string, failed *unstructured.Unstructured) {
	t.Helper()
	struck := faultStruck(t, fault)
	for range 2 {
		before := heartbeat(t)
		eventually(t, "a heartbeat of the extension", func() error {
			if heartbeat(t) == before {
				return fmt.Errorf("the last one is from %s", before)
			}
			return nil
		})
	}
	if now := faultStruck(t, fault); now != struck {
		t.Errorf("the request was repeated: the fault has struck %d times, then %d times", struck, now)
	}
	now := awaitShoot(t, name, "its status", func(o *unstructured.Unstructured) bool { return o != nil })
	if got, want := lastOperation(now, "lastUpdateTime"), lastOperation(failed, "lastUpdateTime"); got != want {
		t.Errorf("the operation was retried at %s after it had failed at %s", got, want)
	}
}

// heartbeat is when the local cloud's extension on the first seed last renewed its Lease.
func heartbeat(t *testing.T) string {
	t.Helper()
	out := kubectl(t, adminOf("local-1"), "get", "leases", "-A", "--field-selector",
		"metadata.name=gardener-extension-heartbeat", "-o",
		`jsonpath={range .items[?(@.spec.holderIdentity=="provider-local")]}{.spec.renewTime}{"\n"}{end}`)
	if strings.Count(out, "\n") != 1 {
		t.Fatalf("there is not one Lease of the extension: %q", out)
	}
	return strings.TrimSpace(out)
}

// networksOf are the IDs of the networks of a control plane namespace in the cloud.
func networksOf(t *testing.T, namespace string) []string {
	t.Helper()
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	if out := hortus(t, "cloud", "networks", "list", "--name", namespace, "-o", "json"); json.Unmarshal([]byte(out),
		&list) != nil {
		t.Fatalf("no list of networks:\n%s", out)
	}
	var ids []string
	for _, network := range list.Items {
		ids = append(ids, network.ID)
	}
	return ids
}
