//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

// TestGardenletUpdatesItself changes the gardenlet of a seed from the garden: its configuration and its chart. A chart
// and an image that do not exist are reported, while the former gardenlet continues; so it takes the correction. When
// the Gardenlet is deleted, its gardenlet stays.
func TestGardenletUpdatesItself(t *testing.T) {
	story(t, bothSeeds)
	const seed = "local-2"
	garden, inSeed := kubeconfigOf("garden"), adminOf(seed)
	restoreGardenlet(t, seed)
	image := kubectl(t, inSeed, "-n", "garden", "get", "deployment", "gardenlet", "-o",
		"jsonpath={.spec.template.spec.containers[0].image}")
	r := newChartRegistry(t)
	archive, err := chart.Archive(charts.FS, "gardenlet", "gardenlet")
	if err != nil {
		t.Fatal(err)
	}
	r.pushArchive(t, "gardenlet", "1.0.0", archive)
	r.pushArchive(t, "gardenlet", "2.0.0", archive)
	released := func() {
		eventually(t, "the gardenlet's ManagedResource is gone", func() error {
			if out := kubectl(t, inSeed, "-n", "garden", "get", "managedresource", "gardenlet", "--ignore-not-found", "-o",
				"name"); out != "" {
				return fmt.Errorf("there is %s", out)
			}
			return nil
		})
	}
	t.Cleanup(func() {
		kubectl(t, garden, "-n", "garden", "delete", "--ignore-not-found", "gardenlet", seed)
		released()
		kubectl(t, inSeed, "-n", "garden", "set", "image", "deployment/gardenlet", "gardenlet="+image)
		kubectl(t, garden, "-n", "garden", "delete", "--ignore-not-found", "secret", "gardenlet-registry", "gardenlet-ca")
	})
	apply := func(tag, image, logLevel string) {
		t.Helper()
		out, err := applyText(t, garden, r.secrets("gardenlet")+"---\n"+r.gardenlet(t, seed, tag, image, logLevel))
		if err != nil {
			t.Fatalf("apply: %v\n%s", err, out)
		}
	}
	reports := func(status string, texts ...string) {
		t.Helper()
		awaitGardenlet(t, seed, status, texts...)
	}
	podsOf := func() string {
		return kubectl(t, inSeed, "-n", "garden", "get", "pods", "-l", "app=gardenlet", "-o",
			"jsonpath={.items[*].metadata.uid}")
	}
	level := func() string {
		config := map[string]any{}
		if err := yaml.Unmarshal([]byte(gardenletConfig(t, seed)), &config); err != nil {
			t.Fatal(err)
		}
		level, _ := config["logLevel"].(string)
		return level
	}

	before := podsOf()
	step(t, "the gardenlet takes another configuration", func(t *testing.T) {
		apply("1.0.0", image, "debug")
		reports("True")
		if now := podsOf(); level() != "debug" || now == before {
			t.Errorf("the gardenlet has the log level %q, and the pods %s, before %s", level(), now, before)
		}
	})
	step(t, "a chart that does not exist is reported", func(t *testing.T) {
		running := podsOf()
		apply("3.0.0", image, "error")
		reports("False", "spec.deployment.helm.ociRepository", r.address+"/charts/gardenlet:3.0.0")
		if now := podsOf(); level() != "debug" || now != running {
			t.Errorf("the gardenlet has the log level %q, and the pods %s, before %s", level(), now, running)
		}
	})
	step(t, "an image that does not exist is reported by the former gardenlet", func(t *testing.T) {
		running := podsOf()
		apply("2.0.0", "hortus.dev/hortus:missing", "error")
		reports("False", "hortus.dev/hortus:missing")
		if now := podsOf(); !strings.Contains(now, running) {
			t.Errorf("of the pods %s there are %s", running, now)
		}
		renews(t, seed)
	})
	step(t, "the correction takes effect", func(t *testing.T) {
		apply("2.0.0", image, "info")
		reports("True")
		if level() != "info" {
			t.Errorf("the gardenlet has the log level %q", level())
		}
		renews(t, seed)
	})
	step(t, "the gardenlet stays when the Gardenlet is deleted", func(t *testing.T) {
		running := podsOf()
		kubectl(t, garden, "-n", "garden", "delete", "gardenlet", seed)
		released()
		if now := podsOf(); now != running {
			t.Errorf("the pods %s have become %s", running, now)
		}
	})
}

// awaitGardenlet waits until a Gardenlet has a condition with the status and the texts, about its newest spec.
func awaitGardenlet(t *testing.T, name, status string, texts ...string) {
	t.Helper()
	eventually(t, "the Gardenlet reports "+status+" "+strings.Join(texts, " "), func() error {
		o := &unstructured.Unstructured{}
		out := kubectl(t, kubeconfigOf("garden"), "-n", "garden", "get", "gardenlet", name, "-o", "json")
		if err := json.Unmarshal([]byte(out), &o.Object); err != nil {
			return err
		}
		c := conditionOf(o, "conditions", "GardenletReconciled")
		seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		message, _ := c["message"].(string)
		ok := c["status"] == status && seen == o.GetGeneration()
		for _, text := range texts {
			ok = ok && strings.Contains(message, text)
		}
		if !ok {
			return fmt.Errorf("generation %d, observed %d, condition %v", o.GetGeneration(), seen, c)
		}
		return nil
	})
}

// renews waits until the gardenlet of a seed has renewed its Lease.
func renews(t *testing.T, seed string) {
	t.Helper()
	lease := func() string {
		return kubectl(t, kubeconfigOf("garden"), "-n", "gardener-system-seed-lease", "get", "lease", seed, "-o",
			"jsonpath={.spec.renewTime}")
	}
	before := lease()
	eventually(t, "the gardenlet renews its Lease", func() error {
		if now := lease(); now == before {
			return fmt.Errorf("the last time was %s", now)
		}
		return nil
	})
}

// deployment is that of a Gardenlet. The Secrets for the registry are those of [chartRegistry.secrets].
func (r *chartRegistry) deployment(secrets, tag, image string) map[string]any {
	return map[string]any{
		"replicaCount": 1, "image": map[string]any{"ref": image},
		"helm": map[string]any{"ociRepository": map[string]any{
			"ref":               r.address + "/charts/gardenlet:" + tag,
			"pullSecretRef":     map[string]any{"name": secrets + "-registry"},
			"caBundleSecretRef": map[string]any{"name": secrets + "-ca"},
		}},
	}
}

// gardenlet is a Gardenlet whose configuration is that of the running gardenlet, with another log level.
func (r *chartRegistry) gardenlet(t *testing.T, seed, tag, image, logLevel string) string {
	t.Helper()
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(gardenletConfig(t, seed)), &config); err != nil {
		t.Fatal(err)
	}
	delete(config, "gardenClientConnection") // It is set by the chart.
	config["logLevel"] = logLevel
	text, err := json.Marshal(map[string]any{
		"apiVersion": "seedmanagement.gardener.cloud/v1alpha1", "kind": "Gardenlet",
		"metadata": map[string]any{"name": seed, "namespace": "garden"},
		"spec": map[string]any{
			"deployment": r.deployment("gardenlet", tag, image),
			"config":     config,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
