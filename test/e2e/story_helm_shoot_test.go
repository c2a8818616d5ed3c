//go:build landscape

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

const (
	// innerNamespace is that of the project of [innerGarden].
	innerNamespace = "garden-inner"
	// innerSeedName is the Seed of [innerSeed].
	innerSeedName = "inner"
)

// innerSeed is the configuration of the gardenlet that makes the Shoot of the garden a seed of it, whose nodes are in
// the given range.
const innerSeed = `config:
  controllers: {shoot: {fenceTime: 2m}}
  seedConfig:
    metadata: {name: inner}
    spec:
      provider: {type: local, region: local, zones: [local-a]}
      networks:
        nodes: %s
        pods: 100.96.0.0/16
        services: 100.64.0.0/16
        shootDefaults: {pods: 100.112.0.0/16, services: 100.113.0.0/16}
        blockCIDRs: [198.18.0.1/32, 198.18.8.1/32, 198.18.8.2/32]
      ingress: {domain: ingress.inner.local.hortus.dev, controller: {kind: nginx}}
      dns:
        provider: {type: local, credentialsRef: {apiVersion: v1, kind: Secret, namespace: garden, name: local-cloud}}
        internal:
          type: local
          domain: internal.local.hortus.dev
          credentialsRef: {apiVersion: v1, kind: Secret, namespace: garden, name: local-cloud}
        defaults:
        - type: local
          domain: local.hortus.dev
          credentialsRef: {apiVersion: v1, kind: Secret, namespace: garden, name: local-cloud}
      backup:
        provider: local
        credentialsRef: {apiVersion: v1, kind: Secret, namespace: garden, name: local-cloud}
`

// publishInner gives a garden what an operator would: a CloudProfile, the provider of the local cloud with its chart,
// credentials of the cloud for the Seed and for the project.
func publishInner(t *testing.T, inner, image string) {
	t.Helper()
	archive, err := chart.Archive(charts.FS, "provider-local", "provider-local")
	if err != nil {
		t.Fatal(err)
	}
	registration, err := os.ReadFile(filepath.Join(repository, "local/landscape/manifests/extension.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.NewReplacer("{{ .Chart }}", base64.StdEncoding.EncodeToString(archive), "{{ .Image }}", image,
		"    replicas: 1\n", "").Replace(string(registration)) // As many as by default.
	if out, err := applyText(t, inner, manifest); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	copyObject(t, inner, "", "cloudprofile", "local", "", nil)
	copyObject(t, inner, "garden", "secret", "local-cloud", "garden", map[string]string{"hortus.dev/seeds": innerSeedName})
	copyObject(t, inner, projectNS, "secret", "local-cloud", innerNamespace, nil)
	copyObject(t, inner, projectNS, "credentialsbinding", "local", innerNamespace, nil)
}

// copyObject copies an object of the landscape's garden to a namespace of another garden, with other annotations.
func copyObject(t *testing.T, inner, from, kind, name, to string, annotations map[string]string) {
	t.Helper()
	args := []string{"get", kind, name, "-o", "json"}
	if from != "" {
		args = append(args, "-n", from)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(kubectl(t, kubeconfigOf("garden"), args...)), &object); err != nil {
		t.Fatal(err)
	}
	metadata := map[string]any{"name": name}
	if to != "" {
		metadata["namespace"] = to
	}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	object["metadata"] = metadata
	delete(object, "status")
	if ref, ok := object["credentialsRef"].(map[string]any); ok {
		ref["namespace"] = to
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := applyText(t, inner, string(text)); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// checkInnerShoot creates a Shoot with a node in a garden, uses it, calls meanwhile with its name, and deletes it.
func checkInnerShoot(t *testing.T, inner string, meanwhile func(t *testing.T, name string)) {
	t.Helper()
	const name = "nested"
	text := boundShoot(example(t, "shoot.yaml"), name, innerSeedName)
	text = strings.NewReplacer("namespace: "+projectNS, "namespace: "+innerNamespace,
		"pods: 100.96.0.0/16", "pods: 100.112.0.0/16", "services: 100.64.0.0/16", "services: 100.113.0.0/16").Replace(text)
	if out, err := applyText(t, inner, text); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	kubectl(t, inner, "-n", innerNamespace, "wait", "shoot/"+name,
		"--for=jsonpath={.status.lastOperation.state}=Succeeded", withPatience)
	if since, announced := staleTimes(t, inner, "inner"); since != "" || announced != "" {
		t.Errorf("with a Shoot, the Project is stale since %q, to be deleted at %q", since, announced)
	}
	kubeconfig := filepath.Join(t.TempDir(), name+".kubeconfig")
	content := hortus(t, "kubeconfig", "shoot", name, "-n", innerNamespace, "--kubeconfig", inner)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	readdress(t, kubeconfig, "api."+name+".inner.local.hortus.dev")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "nodes", "--all", withPatience)
	kubectl(t, kubeconfig, "apply", "-f", "examples/workload.yaml")
	kubectl(t, kubeconfig, "rollout", "status", "deployment/echo", withPatience)

	meanwhile(t, name)
	kubectl(t, kubeconfig, "rollout", "status", "deployment/echo", withPatience)
	kubectl(t, inner, "-n", innerNamespace, "annotate", "shoot", name, "confirmation.gardener.cloud/deletion=true")
	kubectl(t, inner, "-n", innerNamespace, "delete", "shoot", name, withPatience)
}

// checkUpgrades upgrades the releases of garden and gardenlet with a Shoot. The new configuration of the gardenlet
// takes effect; the Shoot is reconciled when that is requested, and at no other time.
func checkUpgrades(t *testing.T, inner, name string, upgradeGarden, upgradeGardenlet func()) {
	t.Helper()
	before := operationsOf(t, inner, name)
	kept := controlPlane(t, inner, name)
	upgradeGarden()
	upgradeGardenlet()
	eventually(t, "the gateway to have the annotation of the new configuration", func() error {
		got, err := kubectlE(t, inner, "-n", "hortus-gateway", "get", "service", "gateway", "-o",
			`jsonpath={.metadata.annotations.example\.com/upgraded}`)
		if err == nil && got != "yes" {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
	if now := controlPlane(t, inner, name); now != kept {
		t.Errorf("the upgrade has changed the control plane, before and after:\n%s\n%s", kept, now)
	}

	const lease = "gardenlet-leader-election"
	holder := func() string {
		text := kubectl(t, inner, "-n", "garden", "get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}")
		pod, _, _ := strings.Cut(text, "_")
		return pod
	}
	leader := holder()
	if got := kubectl(t, inner, "-n", "garden", "get", "pods", "-l", "app=gardenlet",
		"--field-selector=status.phase=Running", "-o", "name"); len(strings.Fields(got)) != 2 {
		t.Errorf("the gardenlet has the pods %s, want 2", got)
	}
	kubectl(t, inner, "-n", "garden", "delete", "pod", leader)
	eventually(t, "the other gardenlet to lead", func() error {
		if now := holder(); now == leader || now == "" {
			return fmt.Errorf("the leader is %q", now)
		}
		return nil
	})
	kubectl(t, inner, "-n", innerNamespace, "annotate", "shoot", name, "gardener.cloud/operation=reconcile")
	eventually(t, "the Shoot to be reconciled", func() error {
		switch now := operationsOf(t, inner, name); {
		case now <= before:
			return fmt.Errorf("it has begun %d operations", now)
		case now > before+1:
			t.Fatalf("the Shoot has begun %d operations, want %d", now, before+1)
		}
		return nil
	})
	kubectl(t, inner, "-n", innerNamespace, "wait", "shoot/"+name,
		"--for=jsonpath={.status.lastOperation.state}=Succeeded", withPatience)
	if now := operationsOf(t, inner, name); now != before+1 {
		t.Errorf("the Shoot has begun %d operations, want %d", now, before+1)
	}
}

// operationsOf counts the events about reconciliations of a Shoot that have begun.
func operationsOf(t *testing.T, inner, name string) int {
	t.Helper()
	var list struct {
		Items []struct {
			Count  int
			Series struct{ Count int }
		}
	}
	out := kubectl(t, inner, "-n", innerNamespace, "get", "events", "--field-selector",
		"reason=Reconciling,involvedObject.kind=Shoot,involvedObject.name="+name, "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, e := range list.Items {
		all += max(1, e.Count, e.Series.Count)
	}
	return all
}

// controlPlane are the workloads of a Shoot with their generations.
func controlPlane(t *testing.T, inner, name string) string {
	t.Helper()
	return kubectl(t, inner, "-n", "shoot--inner--"+name, "get", "deployments,statefulsets", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.generation}{"\n"}{end}`)
}

// removeInnerSeed deletes the Seed of a garden, as before the release of its gardenlet is uninstalled.
func removeInnerSeed(t *testing.T, inner string) {
	t.Helper()
	kubectl(t, inner, "annotate", "seed", innerSeedName, "confirmation.gardener.cloud/deletion=true")
	kubectl(t, inner, "delete", "seed", innerSeedName, withPatience)
}

// nodeRange is the range of the nodes of a Shoot of the landscape.
func nodeRange(t *testing.T, name string) string {
	t.Helper()
	nodes := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o",
		"jsonpath={.spec.networking.nodes} {.status.networking.nodes[0]}")
	fields := strings.Fields(nodes)
	if len(fields) == 0 {
		t.Fatalf("Shoot %s has no range of nodes", name)
	}
	return fields[0]
}
