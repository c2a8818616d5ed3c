//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

// TestGardenletIsInstalledFromTheGarden makes a Shoot a Seed with nothing but its kubeconfig in the garden: the
// controller manager installs the first gardenlet, which then reports for itself, and another one on request after the
// gardenlet was lost.
func TestGardenletIsInstalledFromTheGarden(t *testing.T) {
	story(t, firstSeed)
	const name, credentials = "outpost", "outpost-cluster"
	garden := kubeconfigOf("garden")
	applyShootTextOn(t, strings.Replace(example(t, "shoot.yaml"), "type: small", "type: medium", 1), name, "local-1")
	awaitSucceeded(t, name)
	cluster := shootKubeconfig(t, name)

	r := newChartRegistry(t)
	archive, err := chart.Archive(charts.FS, "gardenlet", "gardenlet")
	if err != nil {
		t.Fatal(err)
	}
	r.pushArchive(t, "gardenlet", "1.0.0", archive)
	allowed := kubectl(t, garden, "-n", "garden", "get", "secret", "local-cloud", "-o",
		`jsonpath={.metadata.annotations.hortus\.dev/seeds}`)
	allow := func(seeds string) {
		kubectl(t, garden, "-n", "garden", "annotate", "--overwrite", "secret", "local-cloud", "hortus.dev/seeds="+seeds)
	}
	allow(allowed + "," + name)
	t.Cleanup(func() {
		if t.Failed() { // Its gardenlet may be unable to remove the Seed.
			return
		}
		kubectl(t, garden, "-n", "garden", "delete", "--ignore-not-found", "secret", credentials, name+"-registry",
			name+"-ca")
		allow(allowed)
	})
	reports := func(status string, texts ...string) {
		t.Helper()
		awaitGardenlet(t, name, status, texts...)
	}

	step(t, "what is missing is reported", func(t *testing.T) {
		manifest := r.secrets(name) + "---\n" + r.firstGardenlet(t, name, credentials, nodeRange(t, name))
		if out, err := applyText(t, garden, manifest); err != nil {
			t.Fatalf("apply: %v\n%s", err, out)
		}
		reports("False", "spec.kubeconfigSecretRef: the Secret garden/"+credentials+" does not exist")
	})
	step(t, "the gardenlet is installed, and registers the Seed", func(t *testing.T) {
		kubectl(t, garden, "-n", "garden", "create", "secret", "generic", credentials, "--from-file=kubeconfig="+cluster)
		kubectl(t, garden, "wait", "seed/"+name, "--for=create", withPatience)
		for _, c := range []string{"GardenletReady", "SeedSystemComponentsHealthy", "ExtensionsReady", "BackupBucketsReady"} {
			kubectl(t, garden, "wait", "seed/"+name, "--for=condition="+c, withPatience)
		}
		reports("True", "The gardenlet is as the spec says")
	})
	step(t, "one token was used, and none is left to use", func(t *testing.T) {
		out := kubectl(t, garden, "-n", "kube-system", "get", "secret", "-l", "hortus.dev/gardenlet="+name, "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.metadata.annotations.hortus\.dev/certificate-signing-request}{"\n"}{end}`)
		for line := range strings.Lines(out) { // It expires 10 min after its use.
			if len(strings.Fields(line)) != 2 {
				t.Errorf("the token %s can still be used", line)
			}
		}
	})
	step(t, "a deleted gardenlet is installed again on request, with a new certificate", func(t *testing.T) {
		// The seed's resource-manager would install it again as well.
		kubectl(t, cluster, "-n", "garden", "scale", "deployment", "gardener-resource-manager", "--replicas=0")
		kubectl(t, cluster, "-n", "garden", "delete", "deployment/gardenlet", "secret/gardenlet-kubeconfig")
		kubectl(t, garden, "-n", "garden", "annotate", "gardenlet", name, "gardener.cloud/operation=force-redeploy")
		kubectl(t, cluster, "-n", "garden", "wait", "secret/gardenlet-kubeconfig", "--for=create", withPatience)
		renews(t, name)
		eventually(t, "the end of the operation", func() error {
			if out := kubectl(t, garden, "-n", "garden", "get", "gardenlet", name, "-o",
				`jsonpath={.metadata.annotations.gardener\.cloud/operation}`); out != "" {
				return fmt.Errorf("it is %q", out)
			}
			return nil
		})
	})
	step(t, "the Seed is removed", func(t *testing.T) {
		reports("True", "The gardenlet is as the spec says")
		kubectl(t, garden, "-n", "garden", "delete", "gardenlet", name)
		kubectl(t, garden, "annotate", "--overwrite", "seed", name, "confirmation.gardener.cloud/deletion=true")
		kubectl(t, garden, "delete", "seed", name, withPatience)
	})
}

// firstGardenlet is a Gardenlet that is installed into the cluster of a Shoot whose nodes are in the range. The garden
// has the address that the gardenlet of local-1 knows.
func (r *chartRegistry) firstGardenlet(t *testing.T, seed, credentials, nodes string) string {
	t.Helper()
	var values struct{ Config map[string]any }
	if err := yaml.Unmarshal(fmt.Appendf(nil, innerSeed, nodes), &values); err != nil {
		t.Fatal(err)
	}
	reached, err := clientcmd.Load([]byte(kubectl(t, adminOf("local-1"), "-n", "garden", "get", "secret",
		"gardenlet-kubeconfig-garden", "-o", "go-template={{.data.kubeconfig | base64decode}}")))
	if err != nil {
		t.Fatal(err)
	}
	address := reached.Clusters[reached.Contexts[reached.CurrentContext].Cluster].Server
	values.Config["apiVersion"] = "gardenlet.config.gardener.cloud/v1alpha1"
	values.Config["kind"] = "GardenletConfiguration"
	values.Config["gardenClientConnection"] = map[string]any{"gardenClusterAddress": address}
	template := values.Config["seedConfig"].(map[string]any)
	template["metadata"] = map[string]any{}
	spec := template["spec"].(map[string]any)
	spec["ingress"].(map[string]any)["domain"] = "ingress." + seed + ".local.hortus.dev"
	// Other stories' Shoots must not be placed on it.
	spec["settings"] = map[string]any{"scheduling": map[string]any{"visible": false}}
	image := kubectl(t, adminOf("local-1"), "-n", "garden", "get", "deployment", "gardenlet",
		"-o", "jsonpath={.spec.template.spec.containers[0].image}")
	text, err := json.Marshal(map[string]any{
		"apiVersion": "seedmanagement.gardener.cloud/v1alpha1", "kind": "Gardenlet",
		"metadata": map[string]any{"name": seed, "namespace": "garden"},
		"spec": map[string]any{
			"deployment":          r.deployment(seed, "1.0.0", image),
			"config":              values.Config,
			"kubeconfigSecretRef": map[string]any{"name": credentials},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
