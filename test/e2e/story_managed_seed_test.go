//go:build landscape

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestShootBecomesASeed makes a Shoot a Seed, places another Shoot on it, and takes both down again. Deletions in the
// wrong order are refused with a reason.
func TestShootBecomesASeed(t *testing.T) {
	story(t, firstSeed)
	const name, within = "inner", "within"
	garden := kubeconfigOf("garden")
	wait := func(t *testing.T, args ...string) {
		t.Helper()
		kubectl(t, garden, append([]string{"wait", withPatience}, args...)...)
	}
	refused := func(t *testing.T, want string, args ...string) {
		t.Helper()
		out, err := kubectlE(t, garden, args...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("kubectl %s: %v\n%s\nwant it to be refused because of %q", strings.Join(args, " "), err, out, want)
		}
	}
	confirm := func(t *testing.T) {
		t.Helper()
		kubectl(t, garden, "-n", "garden", "annotate", "--overwrite", "shoot", name,
			"confirmation.gardener.cloud/deletion=true")
	}
	manifest := strings.Replace(example(t, "managed-seed.yaml"), "  region: local\n",
		"  region: local\n  seedName: local-1\n", 1)
	// Other stories' Shoots must not be placed on it.
	manifest = strings.Replace(manifest, "        spec:\n          networks:\n",
		"        spec:\n          settings: {scheduling: {visible: false}}\n          networks:\n", 1)
	if !strings.Contains(manifest, "seedName: local-1") || !strings.Contains(manifest, "visible: false") {
		t.Fatalf("the example has another form:\n%s", manifest)
	}
	wrong := strings.Replace(manifest, "      seedConfig:", "      noSuchField: true\n      seedConfig:", 1)
	if out, err := applyText(t, garden, wrong); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv(keepLandscape) != "" {
			return
		}
		kubectl(t, garden, "-n", "garden", "delete", "managedseed", name, "--ignore-not-found", withPatience)
		confirm(t)
		kubectl(t, garden, "-n", "garden", "delete", "shoot", name, withPatience)
		kubectl(t, garden, "-n", "garden", "delete", "credentialsbinding", "local", withPatience)
	})

	step(t, "a configuration that a gardenlet does not accept is reported", func(t *testing.T) {
		wait(t, "-n", "garden", "managedseed/"+name, "--for=condition=ShootReconciled")
		wait(t, "-n", "garden", "managedseed/"+name,
			`--for=jsonpath={.status.conditions[?(@.type=="SeedRegistered")].reason}=ReconcileError`)
		out := kubectl(t, garden, "-n", "garden", "get", "managedseed", name, "-o",
			"jsonpath={.status.conditions[*].message}")
		if !strings.Contains(out, "noSuchField") {
			t.Errorf("the conditions say %q, want the name of the unknown field", out)
		}
	})
	step(t, "the gardenlet registers the Seed", func(t *testing.T) {
		if out, err := applyText(t, garden, manifest); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		wait(t, "-n", "garden", "managedseed/"+name, "--for=condition=SeedRegistered")
		for _, c := range []string{
			"GardenletReady", "SeedSystemComponentsHealthy", "ExtensionsReady", "BackupBucketsReady",
		} {
			wait(t, "seed/"+name, "--for=condition="+c)
		}
	})
	applyShootOn(t, "shoot.yaml", within, name)
	step(t, "a Shoot runs on it", func(t *testing.T) {
		awaitSucceeded(t, within)
		kubeconfig := shootKubeconfig(t, within)
		kubectl(t, kubeconfig, "wait", "node", "--all", "--for=condition=Ready", withPatience)
		kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "status", "deployment/coredns", withPatience)
		// Through the tunnel of the inner control plane.
		kubectl(t, kubeconfig, "-n", "kube-system", "logs", "deployment/coredns")
	})
	step(t, "its certificate is renewed on request", func(t *testing.T) {
		outer := adminOf("local-1")
		version := func() string {
			return kubectl(t, outer, "-n", "shoot--garden--"+name, "get", "secret", "gardenlet-kubeconfig-garden", "-o",
				"jsonpath={.metadata.resourceVersion}")
		}
		before := version()
		kubectl(t, garden, "-n", "garden", "annotate", "managedseed", name, "gardener.cloud/operation=renew-kubeconfig")
		eventually(t, "the request to be done", func() error {
			if out := kubectl(t, garden, "-n", "garden", "get", "managedseed", name, "-o",
				`jsonpath={.metadata.annotations.gardener\.cloud/operation}`); out != "" {
				return fmt.Errorf("the operation %q is still requested", out)
			}
			return nil
		})
		if after := version(); after == before {
			t.Errorf("the kubeconfig is still in version %s", after)
		}
		wait(t, "seed/"+name, "--for=condition=GardenletReady")
	})
	step(t, "deletions in the wrong order are refused", func(t *testing.T) {
		refused(t, within, "-n", "garden", "delete", "managedseed", name)
		confirm(t)
		refused(t, "ManagedSeed", "-n", "garden", "delete", "shoot", name)
	})
	step(t, "the Seed and its gardenlet are removed with the ManagedSeed", func(t *testing.T) {
		deleteShoot(t, within)
		kubectl(t, garden, "-n", "garden", "delete", "managedseed", name, withPatience)
		if out := kubectl(t, garden, "get", "seed", name, "--ignore-not-found", "-o", "name"); out != "" {
			t.Errorf("%s is still there", out)
		}
		kubeconfig := shootKubeconfigIn(t, "garden", name)
		if out := kubectl(t, kubeconfig, "-n", "garden", "get", "deployment", "gardenlet", "--ignore-not-found", "-o",
			"name"); out != "" {
			t.Errorf("%s is still in the Shoot", out)
		}
	})
}
