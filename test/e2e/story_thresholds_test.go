//go:build landscape

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestConditionsHaveThresholds gives all conditions a threshold. A Shoot whose API server is down, whose node is
// cordoned, and whose gardenlet is silent shows each of it, first as Progressing or Unknown. Its label is progressing,
// unknown and unhealthy in turn. Explanations of the Seed name the gardenlet, and an emergency stop, which the Seed
// reports and during which a changed Shoot stays as it is.
//
// The story needs the second seed exclusively, because it reconfigures and stops its gardenlet.
func TestConditionsHaveThresholds(t *testing.T) {
	story(t, bothSeeds)
	const (
		name, namespace, seedName = "lenient", "shoot--dev--lenient", "local-2"
		threshold                 = 45 * time.Second // An API server that ends may answer for a while.
		emergencyStop             = corev1beta1.AnnotationEmergencyStopShootReconciliations
		server, controlPlane      = "APIServerAvailable", "ControlPlaneHealthy"
		nodes, system             = "EveryNodeReady", "SystemComponentsHealthy"
	)
	garden, seed := kubeconfigOf("garden"), adminOf(seedName)
	restoreGardenlet(t, seedName)
	giveConditionsTime(t, seedName, threshold, server, controlPlane, nodes, system)
	// The node is the only one, even when its pods have no place.
	applyShootTextOn(t, strings.Replace(example(t, "shoot.yaml"), "maximum: 2", "maximum: 1", 1), name, seedName)
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	healthy := func(o *unstructured.Unstructured) bool { return allWell(o) && statusLabel(o) == "healthy" }
	awaitShoot(t, name, "health", healthy)

	step(t, "an API server that is down", func(t *testing.T) {
		first := watchStatuses(t, name, "unknown", map[string]string{
			server: "Progressing", controlPlane: "Progressing", nodes: "Unknown", system: "Unknown",
		})
		kubectl(t, seed, "-n", namespace, "scale", "deployment", "kube-apiserver", "--replicas=0")
		later := awaitStatuses(t, name, "unhealthy", map[string]string{
			server: "False", controlPlane: "False", nodes: "Unknown", system: "Unknown",
		})
		checkThreshold(t, first(t), later, threshold, server, controlPlane)
		kubectl(t, seed, "-n", namespace, "scale", "deployment", "kube-apiserver", "--replicas=1")
		awaitShoot(t, name, "health", healthy)
	})
	step(t, "a cordoned node without room for system components", func(t *testing.T) {
		first := watchStatuses(t, name, "progressing", map[string]string{
			server: "True", controlPlane: "True", nodes: "Progressing", system: "Progressing",
		})
		node := nodeOfPool(t, kubeconfig, "pool").Name
		kubectl(t, kubeconfig, "cordon", node)
		kubectl(t, kubeconfig, "-n", "kube-system", "delete", "pods", "-l", "k8s-app=kube-dns", "--wait=false")
		later := awaitStatuses(t, name, "unhealthy", map[string]string{
			server: "True", controlPlane: "True", nodes: "False", system: "False",
		})
		checkThreshold(t, first(t), later, threshold, nodes, system)
		kubectl(t, kubeconfig, "uncordon", node)
		awaitShoot(t, name, "health", healthy)
	})
	observed := func(t *testing.T) string {
		t.Helper()
		return kubectl(t, garden, "-n", projectNS, "get", "shoot", name, "-o", "jsonpath={.status.observedGeneration}")
	}
	before := observed(t)
	t.Cleanup(func() { // Before the Shoot is deleted, which a stop prevents.
		if out, err := kubectlE(t, garden, "annotate", "seed", seedName, emergencyStop+"-"); err != nil {
			t.Errorf("end the emergency stop: %v\n%s", err, out)
		}
	})
	step(t, "an emergency stop of the seed", func(t *testing.T) {
		kubectl(t, garden, "annotate", "seed", seedName, emergencyStop+"=true")
		kubectl(t, garden, "wait", "seed/"+seedName, "--for=condition=EmergencyStopShootReconciliations", withPatience)
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p",
			`{"spec":{"kubernetes":{"kubeAPIServer":{"requests":{"maxMutatingInflight":201}}}}}`)
		for of, want := range map[string]string{
			name:               "An operator has to end the emergency stop of the Seed",
			"seed/" + seedName: "An operator has stopped all operations on its Shoots.",
		} {
			out := hortus(t, "explain", of, "-n", projectNS)
			if !strings.Contains(out, want) || !strings.Contains(out, "annotate seed "+seedName+" "+emergencyStop+"-") {
				t.Errorf("explain %s does not say %q:\n%s", of, want, out)
			}
		}
	})
	step(t, "a gardenlet that is silent", func(t *testing.T) {
		gardenlet := []string{"-n", "garden", "scale", "deployment", "gardenlet"}
		replicas := kubectl(t, seed, "-n", "garden", "get", "deployment", "gardenlet", "-o", "jsonpath={.spec.replicas}")
		t.Cleanup(func() { kubectl(t, seed, append(gardenlet, "--replicas="+replicas)...) })
		kubectl(t, seed, append(gardenlet, "--replicas=0")...)
		silent := awaitStatuses(t, name, "unknown", map[string]string{
			server: "Unknown", controlPlane: "Unknown", nodes: "Unknown", system: "Unknown",
		})
		for _, list := range []string{"conditions", "constraints"} {
			all, _, _ := unstructured.NestedSlice(silent.Object, "status", list)
			for _, item := range all {
				c := item.(map[string]any)
				if message, _ := c["message"].(string); c["status"] != "Unknown" || !strings.Contains(message, "heartbeat") {
					t.Errorf("without a gardenlet, the Shoot has %v", c)
				}
			}
		}
		if out := kubectl(t, garden, "-n", projectNS, "get", "shoot", name); !strings.Contains(out, "unknown") {
			t.Errorf("the list says:\n%s", out)
		}
		out := hortus(t, "explain", "seed/"+seedName, "--seed-kubeconfig", seed)
		for _, want := range []string{"Condition GardenletReady", "It has no pods, because spec.replicas is 0."} {
			if !strings.Contains(out, want) {
				t.Errorf("explain does not say %q:\n%s", want, out)
			}
		}
		kubectl(t, kubeconfig, "get", "nodes") // The control plane itself needs no gardenlet.
		kubectl(t, seed, append(gardenlet, "--replicas="+replicas)...)
		awaitShoot(t, name, "health", healthy)
	})
	step(t, "the emergency stop outlives the gardenlet, and its end begins what is due", func(t *testing.T) {
		if now := observed(t); now != before {
			t.Errorf("the stopped Shoot has been reconciled: generation %s became %s", before, now)
		}
		if out := hortus(t, "explain", "seed/"+seedName); !strings.Contains(out, "stopped all operations on its Shoots") {
			t.Errorf("the Seed forgot the emergency stop:\n%s", out)
		}
		kubectl(t, garden, "annotate", "seed", seedName, emergencyStop+"-")
		eventually(t, "the Seed to report no emergency stop", func() error {
			if c := kubectl(t, garden, "get", "seed", seedName, "-o", "jsonpath={.status.conditions[*].type}"); strings.Contains(
				c, "EmergencyStop") {
				return fmt.Errorf("it has the conditions %s", c)
			}
			return nil
		})
		awaitSucceeded(t, name)
		awaitShoot(t, name, "health", healthy)
	})
}

// haveStatuses reports whether a Shoot has the label and conditions with these statuses.
func haveStatuses(o *unstructured.Unstructured, label string, statuses map[string]string) bool {
	for condition, status := range statuses {
		if conditionOf(o, "conditions", condition)["status"] != status {
			return false
		}
	}
	return statusLabel(o) == label
}

// awaitStatuses waits until [haveStatuses] is true.
func awaitStatuses(t *testing.T, name, label string, statuses map[string]string) *unstructured.Unstructured {
	t.Helper()
	return awaitShoot(t, name, "label "+label, func(o *unstructured.Unstructured) bool {
		return haveStatuses(o, label, statuses)
	})
}

// watchStatuses watches a Shoot and returns a function that waits until [haveStatuses] has been true at any time since,
// and returns the Shoot of that time.
func watchStatuses(
	t *testing.T, name, label string, statuses map[string]string,
) func(*testing.T) *unstructured.Unstructured {
	t.Helper()
	var mu sync.Mutex
	var found *unstructured.Unstructured
	state := "label " + label
	seen := watchShoot(t, name, map[string]func(*unstructured.Unstructured) bool{
		state: func(o *unstructured.Unstructured) bool {
			mu.Lock()
			defer mu.Unlock()
			if found == nil && haveStatuses(o, label, statuses) {
				found = o.DeepCopy()
			}
			return found != nil
		},
	})
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		seen(t, state)
		mu.Lock()
		defer mu.Unlock()
		return found
	}
}

// checkThreshold requires that conditions were Progressing for the threshold before they became False.
func checkThreshold(
	t *testing.T, progressing, failed *unstructured.Unstructured, threshold time.Duration, conditions ...string,
) {
	t.Helper()
	since := func(o *unstructured.Unstructured, condition string) time.Time {
		text, _ := conditionOf(o, "conditions", condition)["lastTransitionTime"].(string)
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
		return at
	}
	for _, condition := range conditions {
		took := since(failed, condition).Sub(since(progressing, condition))
		if took < threshold {
			t.Errorf("%s was Progressing for %s, want at least %s", condition, took, threshold)
		}
		t.Logf("%s was Progressing for %s: %v", condition, took, conditionOf(failed, "conditions", condition)["message"])
	}
}
