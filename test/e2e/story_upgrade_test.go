//go:build landscape

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/release"
	"hortus.dev/hortus/test/upgrade"
)

const (
	// shootBound and gardenBound are the longest times without an acknowledged write during an upgrade of a landscape.
	// The local cloud restarts, which has name server and load balancers. The garden has one API server, and its
	// machine, whose etcd runs in the image of Hortus, restarts with a new version. Usually these are 5 and 60 s; on a
	// machine with slow page faults they were up to 36 and 120 s. The rest is for a busy machine.
	shootBound  = 2 * time.Minute
	gardenBound = 4 * time.Minute
)

// TestReleaseIsUpgraded brings up a landscape of the last release and upgrades it to this version while clients write
// to the garden and to a Shoot. Nothing acknowledged is lost; nodes and their pods stay. A Shoot from before the
// upgrade is reconciled once, which replaces those pods of its control plane that the notes of the next release name,
// and can be changed and deleted afterwards. A gardenlet of the last release works with the garden of this version. An
// upgrade that is taken back loses nothing either.
//
// The release is built from the commit that docs/releases/README.md names.
func TestReleaseIsUpgraded(t *testing.T) {
	const name, seed = "upgraded", "local-2"
	last := lastRelease(t)
	old := buildRelease(t, last)
	garden := kubeconfigOf("garden")
	hortus(t, "down")
	before := observeHost(t)
	t.Cleanup(func() { hortus(t, "down") })

	old.up(t)
	landscapeObjects = cloudObjects(t)
	if out, err := applyText(t, garden, boundShoot(example(t, "shoot.yaml"), name, seed)); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	awaitVersion(t, name, last.Version)
	kubeconfig := shootKubeconfig(t, name)
	kubectl(t, kubeconfig, "apply", "-f", "examples/workload.yaml")
	kubectl(t, kubeconfig, "rollout", "status", "deployment/echo", withPatience)
	nodes, pods := nodeUIDs(t, kubeconfig), podStarts(t, kubeconfig)
	control, oldGardenlet := controlPlanePods(t, name), gardenletOf(t, seed)
	inGarden, inShoot := startGardenWriter(t), startWriter(t, kubeconfig)
	step(t, "garden and seeds become this version", func(t *testing.T) {
		inGarden.during(t, "the garden", gardenBound, func() {
			inShoot.during(t, "the Shoot", shootBound, func() {
				hortus(t, "up")
				awaitVersion(t, name, "dev")
			})
		})
	})
	step(t, "nothing is lost, and nodes and pods are the same", func(t *testing.T) {
		inGarden.awaitMore(t, 10)
		inShoot.awaitMore(t, 10)
		t.Logf("%d writes to the garden and %d to the Shoot", inGarden.check(t, garden), inShoot.check(t, kubeconfig))
		if after := nodeUIDs(t, kubeconfig); after != nodes {
			t.Errorf("nodes before and after:\n%s\n%s", nodes, after)
		}
		for pod, started := range podStarts(t, kubeconfig) {
			if then, there := pods[pod]; there && then != started {
				t.Errorf("pod %s was started again: %v, before the upgrade %v", pod, started, then)
			}
			delete(pods, pod)
		}
		for pod := range pods {
			if strings.HasPrefix(pod, "echo-") {
				t.Errorf("pod %s is gone", pod)
			} else {
				t.Logf("pod %s of a system component was replaced", pod)
			}
		}
	})
	step(t, "pods of the control plane are replaced as the notes of the release say", func(t *testing.T) {
		checkNotes(t, last.Version, control, controlPlanePods(t, name))
	})
	step(t, "a gardenlet of the last release works with this garden", func(t *testing.T) {
		writer := startWriter(t, kubeconfig)
		writer.during(t, "the Shoot", shootBound, func() {
			kubectl(t, adminOf(seed), "replace", "-f", oldGardenlet)
			kubectl(t, adminOf(seed), "-n", "garden", "rollout", "status", "deployment/gardenlet", withPatience)
			patchShoot(t, name, `{"spec":{"kubernetes":{"kubeAPIServer":{"eventTTL":"90m"}}}}`)
			awaitVersion(t, name, last.Version)
		})
		writer.check(t, kubeconfig)
		if after := nodeUIDs(t, kubeconfig); after != nodes {
			t.Errorf("nodes before and after:\n%s\n%s", nodes, after)
		}
		awaitSeedReady(t, seed)
	})
	step(t, "the way back and forth again loses nothing either", func(t *testing.T) {
		writer := startWriter(t, kubeconfig)
		writer.during(t, "back", shootBound, func() {
			old.up(t)
			patchShoot(t, name, `{"spec":{"kubernetes":{"kubeAPIServer":{"eventTTL":"2h"}}}}`)
			awaitVersion(t, name, last.Version)
		})
		writer.during(t, "forth", shootBound, func() {
			hortus(t, "up")
			awaitVersion(t, name, "dev")
		})
		writer.check(t, kubeconfig)
		if after := nodeUIDs(t, kubeconfig); after != nodes {
			t.Errorf("nodes before and after:\n%s\n%s", nodes, after)
		}
	})
	step(t, "the Shoot can be changed and deleted", func(t *testing.T) {
		patchShoot(t, name, `{"spec":{"kubernetes":{"kubeAPIServer":{"eventTTL":"3h"}}}}`)
		deleteShoot(t, name)
		nothingLeft(t)
	})
	step(t, "down leaves no trace", func(t *testing.T) {
		hortus(t, "down")
		before.compare(t, observeHost(t))
	})
}

// gardenletOf writes the objects that make the gardenlet of a seed what it is into a file that "kubectl replace" takes,
// and returns the name of the file.
func gardenletOf(t *testing.T, seed string) string {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	err := list.UnmarshalJSON([]byte(kubectl(t, adminOf(seed), "-n", "garden", "get", "deployment/gardenlet",
		"configmap/"+gardenletConfigMap(t, seed), "clusterrole/gardener.cloud:system:gardenlet", "-o", "json")))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].SetResourceVersion("") // Whatever has happened to it until then.
		list.Items[i].SetManagedFields(nil)
		unstructured.RemoveNestedField(list.Items[i].Object, "status")
	}
	text, err := list.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gardenlet.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// awaitSeedReady waits until a Seed has conditions, and none of them is bad.
func awaitSeedReady(t *testing.T, seed string) {
	t.Helper()
	eventually(t, "Seed "+seed+" is ready", func() error {
		conditions := kubectl(t, kubeconfigOf("garden"), "get", "seed", seed, "-o",
			`jsonpath={range .status.conditions[*]}{.type} {.status} {.message}{"\n"}{end}`)
		if conditions == "" {
			return errors.New("it has no conditions")
		}
		for condition := range strings.Lines(conditions) {
			if fields := strings.Fields(condition); len(fields) > 1 && fields[1] != "True" {
				return errors.New(strings.TrimSpace(condition))
			}
		}
		return nil
	})
}

// awaitVersion waits until gardenlets of the version have done what the Shoot requests.
func awaitVersion(t *testing.T, name, version string) {
	t.Helper()
	awaitShoot(t, name, "an operation of version "+version+" that succeeded", func(o *unstructured.Unstructured) bool {
		if o == nil || !succeeded(o) {
			return false
		}
		by, _, _ := unstructured.NestedString(o.Object, "status", "gardener", "version")
		return by == version
	})
}

// controlPlanePods returns the UIDs of the pods of a Shoot's control plane by what creates them, as the notes of
// releases name it.
func controlPlanePods(t *testing.T, name string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(kubectl(t, adminOf(seedOf(t, name)), "-n", "shoot--dev--"+name, "get", "pods", "-o",
		`jsonpath={range .items[*]}{.metadata.ownerReferences[0].kind} {.metadata.ownerReferences[0].name} `+
			`{.metadata.uid} {.metadata.deletionTimestamp}{"\n"}{end}`)) {
		fields := strings.Fields(line)
		if len(fields) != 3 { // It is being deleted.
			continue
		}
		kind, owner := fields[0], fields[1]
		if kind == "ReplicaSet" {
			kind, owner = "Deployment", owner[:strings.LastIndex(owner, "-")]
		}
		workload := fmt.Sprintf("%s `%s`", kind, owner)
		out[workload] = append(out[workload], fields[2])
	}
	return out
}

// checkNotes compares which pods an upgrade has replaced with what the notes of the next release say. Pods with
// containers that are started again stay.
func checkNotes(t *testing.T, version string, before, after map[string][]string) {
	t.Helper()
	const example = "with workers"
	was, is := writtenBy(t, version), writtenBy(t, "next")
	said := map[string][]string{}
	for _, effect := range upgrade.Compare(was, is).Pods {
		if effect.Shoot == example {
			said[effect.Object] = effect.Reasons
		}
	}
	checked := 0
	for workload := range is[example].Workloads {
		if len(before[workload]) == 0 || len(after[workload]) == 0 {
			continue // The example has another infrastructure.
		}
		checked++
		same := func(uid string) bool { return slices.Contains(before[workload], uid) }
		kept := slices.ContainsFunc(after[workload], same)
		if reasons := said[workload]; kept != (len(reasons) == 0) {
			t.Errorf("%s: pods were kept: %t; the notes say that they are replaced because of %q", workload, kept, reasons)
		}
	}
	if checked < 5 {
		t.Errorf("only %d workloads of the control plane were compared: %v", checked, after)
	}
}

// writtenBy is what the gardenlet of a release writes for example Shoots.
func writtenBy(t *testing.T, version string) upgrade.Summary {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs/releases", version+".workloads.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out upgrade.Summary
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// lastRelease returns the release that this version replaces.
func lastRelease(t *testing.T) upgrade.Release {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(repository, "docs/releases/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	last, err := upgrade.Last(string(table))
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// oldVersion is an earlier version of the project.
type oldVersion struct {
	folder  string // With its sources.
	program string // The hortus command.
}

// buildRelease takes the sources of a release out of the history of this checkout, and builds the program.
func buildRelease(t *testing.T, r upgrade.Release) oldVersion {
	t.Helper()
	source, err := release.Source{Folder: repository, Commit: r.Commit}.Checkout(t.Context(),
		filepath.Join(t.TempDir(), "source"))
	if err != nil {
		t.Fatalf("take the sources of %s out of the history of this checkout, which has to be a full clone: %v", r.Version, err)
	}
	program, err := release.Compiler{Source: source, Version: r.Version, Folder: t.TempDir()}.Compile(t.Context(),
		release.Program{Name: "hortus", Package: "./cmd/hortus"}, "linux/"+runtime.GOARCH)
	if err != nil {
		t.Fatalf("build %s: %v", r.Version, err)
	}
	return oldVersion{folder: source.Folder, program: program}
}

// up brings up or changes the landscape with the release, as its users did, but with the components of this checkout.
func (r oldVersion) up(t *testing.T) {
	t.Helper()
	artifacts, err := filepath.Abs(filepath.Join(repository, ".build"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), r.program, "up", "--artifacts", artifacts)
	command.Dir = r.folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("hortus up of the release: %v\n%s", err, out)
	}
}
