//go:build landscape

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// checkCare has an operator configure thresholds for failing conditions and breaks a Shoot in two ways: a webhook
// without a server keeps a system component from starting, and a node is cordoned. The status shows both, first as
// Progressing, and the Shoot recovers.
func checkCare(t *testing.T) {
	giveConditionsTime(t, seedOf(t, "two"), 10*time.Second, "EveryNodeReady", "SystemComponentsHealthy")
	awaitShoot(t, "two", "conditions and constraints to be True", allWell)
	conditions := []string{"EveryNodeReady", "SystemComponentsHealthy"}
	has := func(condition, status string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			return conditionOf(o, "conditions", condition)["status"] == status
		}
	}
	states := map[string]func(*unstructured.Unstructured) bool{}
	for _, condition := range conditions {
		progressing, unknown := has(condition, "Progressing"), has(condition, "Unknown")
		states[condition+" is Progressing"] = func(o *unstructured.Unstructured) bool {
			// A host short of time may silence the gardenlet until its Shoots are Unknown. From there on nothing is tolerated.
			return progressing(o) || unknown(o)
		}
	}
	seen := watchShoot(t, "two", states)
	kubeconfig := shootKubeconfig(t, "two")
	node := nodeOfPool(t, kubeconfig, "large").Name
	applyTestdata(t, kubeconfig, "webhook.yaml", "")
	kubectl(t, kubeconfig, "cordon", node)
	eventually(t, "a pod that the webhook rejects", func() error {
		out, err := kubectlE(t, kubeconfig, "run", "refused", "--image=hortus.dev/echo:1.0.0", "--dry-run=server")
		if err == nil || !strings.Contains(out, "pods.nobody.example.com") {
			return fmt.Errorf("%v\n%s", err, out)
		}
		return nil
	})
	kubectl(t, kubeconfig, "-n", "kube-system", "delete", "pods", "-l", "k8s-app=kube-dns", "--wait=false")

	shoot := awaitShoot(t, "two", "the conditions to be False", func(o *unstructured.Unstructured) bool {
		for _, condition := range conditions {
			if !has(condition, "False")(o) {
				return false
			}
		}
		return has("APIServerAvailable", "True")(o) && has("ControlPlaneHealthy", "True")(o) &&
			conditionOf(o, "constraints", "HibernationPossible")["status"] == "False"
	})
	for state := range states {
		seen(t, state)
	}
	for _, want := range []struct{ list, name, status, text string }{
		{"conditions", "APIServerAvailable", "True", ""},
		{"conditions", "ControlPlaneHealthy", "True", ""},
		{"conditions", "EveryNodeReady", "False", node},
		{"conditions", "SystemComponentsHealthy", "False", "coredns"},
		{"constraints", "HibernationPossible", "False", "pods.nobody.example.com"},
		{"constraints", "MaintenancePreconditionsSatisfied", "False", "pods.nobody.example.com"},
	} {
		c := conditionOf(shoot, want.list, want.name)
		if message, _ := c["message"].(string); c["status"] != want.status || !strings.Contains(message, want.text) {
			t.Errorf("%s is %v, want %s with a message about %q", want.name, c, want.status, want.text)
		}
		for _, field := range []string{"reason", "message", "lastTransitionTime", "lastUpdateTime"} {
			if text, _ := c[field].(string); text == "" {
				t.Errorf("%s has no %s: %v", want.name, field, c)
			}
		}
		codes, _ := c["codes"].([]any)
		if slices.Contains(codes, any("ERR_PROBLEMATIC_WEBHOOK")) != (want.list == "constraints") {
			t.Errorf("%s has codes %v", want.name, codes)
		}
	}

	explanation := hortus(t, "explain", "two", "-n", projectNS)
	for _, want := range []string{
		"Condition EveryNodeReady", "Node " + node + " (Shoot): It is cordoned", "kubectl uncordon " + node,
		"Condition SystemComponentsHealthy", "Deployment coredns (Shoot, namespace kube-system)",
		`failed calling webhook "pods.nobody.example.com"`, "Constraint HibernationPossible",
		"To do: Correct or delete the webhook",
	} {
		if !strings.Contains(explanation, want) {
			t.Errorf("explain does not say %q:\n%s", want, explanation)
		}
	}

	kubectl(t, kubeconfig, "delete", "validatingwebhookconfiguration", "nobody")
	kubectl(t, kubeconfig, "uncordon", node)
	// The ReplicaSet controller retries failed creations of pods at growing intervals, but at once after a change.
	kubectl(t, kubeconfig, "-n", "kube-system", "annotate", "replicasets", "-l", "k8s-app=kube-dns",
		"example.com/try=again")
	awaitShoot(t, "two", "conditions and constraints to be True again", allWell)
}

// allWell reports whether a Shoot's conditions are True, and the constraints that are always shown.
func allWell(o *unstructured.Unstructured) bool {
	return wellWithoutNodes(o) && conditionOf(o, "conditions", "EveryNodeReady")["status"] == "True"
}

// wellWithoutNodes is [allWell] for a Shoot without nodes.
func wellWithoutNodes(o *unstructured.Unstructured) bool {
	for _, name := range []string{"APIServerAvailable", "ControlPlaneHealthy", "SystemComponentsHealthy"} {
		if conditionOf(o, "conditions", name)["status"] != "True" {
			return false
		}
	}
	for _, name := range []string{"HibernationPossible", "MaintenancePreconditionsSatisfied"} {
		if conditionOf(o, "constraints", name)["status"] != "True" {
			return false
		}
	}
	return true
}

// giveConditionsTime changes the configuration of a seed's gardenlet as its operator would: Shoots are checked often,
// and the named conditions have a threshold before they are False.
func giveConditionsTime(t *testing.T, seed string, threshold time.Duration, conditions ...string) {
	t.Helper()
	reconfigureGardenlet(t, seed, func(config map[string]any) {
		var thresholds []any
		for _, condition := range conditions {
			thresholds = append(thresholds, map[string]any{"type": condition, "duration": threshold.String()})
		}
		care := map[string]any{"syncPeriod": "10s", "conditionThresholds": thresholds}
		if err := unstructured.SetNestedMap(config, care, "controllers", "shootCare"); err != nil {
			t.Fatal(err)
		}
	})
}

// gardenletConfig is the text of the configuration of a seed's gardenlet.
func gardenletConfig(t *testing.T, seed string) string {
	t.Helper()
	var configMap corev1.ConfigMap
	out := kubectl(t, adminOf(seed), "-n", "garden", "get", "configmap", gardenletConfigMap(t, seed), "-o", "json")
	if err := json.Unmarshal([]byte(out), &configMap); err != nil {
		t.Fatal(err)
	}
	return configMap.Data["config.yaml"]
}

// gardenletConfigMap is the name of the ConfigMap that a seed's gardenlet has its configuration from.
func gardenletConfigMap(t *testing.T, seed string) string {
	t.Helper()
	return kubectl(t, adminOf(seed), "-n", "garden", "get", "deployment", "gardenlet", "-o",
		`jsonpath={.spec.template.spec.volumes[?(@.name=="config")].configMap.name}`)
}

// reconfigureGardenlet changes the configuration of a seed's gardenlet and replaces its pod.
func reconfigureGardenlet(t *testing.T, seed string, change func(map[string]any)) {
	t.Helper()
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(gardenletConfig(t, seed)), &config); err != nil {
		t.Fatal(err)
	}
	change(config)
	changed, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	writeGardenletConfig(t, seed, string(changed))
}

// restoreGardenlet restores the present configuration of a seed's gardenlet at the end of the test.
func restoreGardenlet(t *testing.T, seed string) {
	t.Helper()
	before := gardenletConfig(t, seed)
	t.Cleanup(func() { writeGardenletConfig(t, seed, before) })
}

// writeGardenletConfig gives a seed's gardenlet a ConfigMap with the configuration, which replaces its pod.
func writeGardenletConfig(t *testing.T, seed, config string) {
	t.Helper()
	sum := sha256.Sum256([]byte(config))
	name := fmt.Sprintf("gardenlet-config-of-story-%x", sum[:4])
	configMap, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name}, Data: map[string]string{"config.yaml": config},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := adminOf(seed)
	if out, err := applyText(t, kubeconfig, string(configMap)); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	kubectl(t, kubeconfig, "-n", "garden", "patch", "deployment", "gardenlet", "-p",
		fmt.Sprintf(`{"spec":{"template":{"spec":{"volumes":[{"name":"config","configMap":{"name":%q}}]}}}}`, name))
	kubectl(t, kubeconfig, "-n", "garden", "rollout", "status", "deployment/gardenlet", withPatience)
}

// conditionOf returns a condition or constraint of an object's status; empty if the status has none of this type.
func conditionOf(o *unstructured.Unstructured, list, name string) map[string]any {
	if o == nil {
		return nil
	}
	all, _, _ := unstructured.NestedSlice(o.Object, "status", list)
	for _, item := range all {
		if c, isMap := item.(map[string]any); isMap && c["type"] == name {
			return c
		}
	}
	return nil
}

// nodeReady reports whether a Node is ready.
func nodeReady(o *unstructured.Unstructured) bool {
	return conditionOf(o, "conditions", string(corev1.NodeReady))["status"] == "True"
}

// podReady reports whether a Pod is ready and not being deleted.
func podReady(o *unstructured.Unstructured) bool {
	return o.GetDeletionTimestamp() == nil && conditionOf(o, "conditions", string(corev1.PodReady))["status"] == "True"
}
