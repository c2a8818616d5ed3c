//go:build landscape

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestHibernationEndsUpdatesInPlace hibernates a Shoot in the middle of updates in place: one machine cannot be
// updated, one is, and one waits for its user. No update is pending during hibernation, so that the pools may be
// changed, nor after the wake-up, with new machines. Then the Shoot is deleted without a clean-up of what would hold
// that up.
func TestHibernationEndsUpdatesInPlace(t *testing.T) {
	story(t, firstSeed)
	const name, seed = "halfway", "local-1"
	garden := kubeconfigOf("garden")
	applyShoot(t, "shoot-halfway.yaml")
	t.Cleanup(func() {
		if kubectl(t, garden, "-n", projectNS, "get", "shoot", name, "--ignore-not-found", "-o", "name") != "" {
			deleteShoot(t, name)
		}
	})
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	stuck, chosen := nodeOfPool(t, kubeconfig, "stuck"), nodesOfPool(t, kubeconfig, "chosen")
	if len(chosen) != 2 {
		t.Fatalf("there are %d nodes, want 2", len(chosen))
	}
	former := sets.New(stuck.UID, chosen[0].UID, chosen[1].UID)
	awaitShoot(t, name, "conditions and constraints to be True", allWell)

	step(t, "two updates of three do not end", func(t *testing.T) {
		runOn(t, stuck.Name, "mkdir", "/etc/os-release.new")
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p",
			"["+replaceIn(0, "machine/image/version", "1.1.0")+","+replaceIn(1, "machine/image/version", "1.1.0")+"]")
		awaitPending(t, name, pendingPools{Auto: []string{"stuck"}, Manual: []string{"chosen"}})
		kubectl(t, kubeconfig, "label", "node", chosen[0].Name, labelSelected+"=true")
		awaitUpdated(t, kubeconfig, chosen[0], "1.1.0")
		awaitShoot(t, name, "the failed update to be named", func(o *unstructured.Unstructured) bool {
			return strings.Contains(lastOperation(o, "description"), fmt.Sprintf("machine %q failed", stuck.Name))
		})
		if waits := nodeNamed(t, kubeconfig, chosen[1].Name); waits.Labels[labelCandidate] != "true" {
			t.Errorf("the node that nobody has selected has labels %v", waits.Labels)
		}
	})
	step(t, "the Shoot hibernates nevertheless, and no update is pending", func(t *testing.T) {
		patchShoot(t, name, `{"spec":{"hibernation":{"enabled":true}}}`)
		awaitPending(t, name, pendingPools{})
		cloudHas(t, name, map[string]int{"networks": 1})
		awaitShoot(t, name, "no constraint about updates", withoutManualUpdates)
	})
	step(t, "its pools may be changed meanwhile", func(t *testing.T) {
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p",
			"["+replaceIn(1, "machine/image/version", "1.2.0")+"]")
		awaitSucceeded(t, name)
		awaitPending(t, name, pendingPools{})
		cloudHas(t, name, map[string]int{"networks": 1})
	})
	step(t, "it wakes up with new machines, and no update is pending", func(t *testing.T) {
		patchShoot(t, name, `{"spec":{"hibernation":{"enabled":false}}}`)
		awaitPending(t, name, pendingPools{})
		awaitPool(t, kubeconfig, "stuck", 1, "1.1.0")
		awaitPool(t, kubeconfig, "chosen", 2, "1.2.0")
		for _, node := range nodesOf(t, kubeconfig, "worker.gardener.cloud/pool") {
			if former.Has(node.UID) {
				t.Errorf("node %s was there before", node.Name)
			}
		}
		awaitShoot(t, name, "conditions and constraints to be True", func(o *unstructured.Unstructured) bool {
			return allWell(o) && withoutManualUpdates(o)
		})
		cloudHas(t, name, map[string]int{"instances": 3, "networks": 1, "dns": 2})
	})
	step(t, "it is deleted without a clean-up, and leaves nothing in the cloud", func(t *testing.T) {
		costly(t, kubeconfig)
		cloudHas(t, name, map[string]int{"instances": 3, "networks": 1, "load-balancers": 1, "volumes": 1, "dns": 2})
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "confirmation.gardener.cloud/deletion=true",
			"shoot.gardener.cloud/skip-cleanup=true",
			// A pod that is not cleaned up uses the volume. All others have the documented time, an hour for definitions.
			"shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds=20")
		kubectl(t, garden, "-n", projectNS, "delete", "shoot", name, "--wait=false")
		onlyCostlyIsDeleted(t, name, kubeconfig)
		awaitShoot(t, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
		cloudHas(t, name, map[string]int{})
		awaitLeft(t, name, seed)
	})
}

// TestShootsAreDeletedInAnyState deletes a Shoot while its first machine starts, one that is hibernated, and one that
// wakes up. The cloud has no objects of them left.
func TestShootsAreDeletedInAnyState(t *testing.T) {
	story(t, firstSeed)
	const unborn, napping, yawning, seed = "unborn", "napping", "yawning", "local-1"
	garden := kubeconfigOf("garden")
	for _, name := range []string{unborn, napping, yawning} {
		applyShootOn(t, "shoot.yaml", name, seed)
	}
	remove := func(t *testing.T, name string, annotations ...string) {
		t.Helper()
		kubectl(t, garden, append([]string{
			"-n", projectNS, "annotate", "shoot", name, "confirmation.gardener.cloud/deletion=true",
		}, annotations...)...)
		kubectl(t, garden, "-n", projectNS, "delete", "shoot", name, "--wait=false")
	}
	awaitGone := func(t *testing.T, name string) {
		t.Helper()
		awaitShoot(t, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
		cloudHas(t, name, map[string]int{})
		awaitLeft(t, name, seed)
	}
	// startsMachines waits until the Shoot has a machine, and requires that the operation which starts it is in progress.
	startsMachines := func(t *testing.T, name, operation string) {
		t.Helper()
		eventually(t, "an instance of Shoot "+name, func() error {
			if cloudObjectsOf(t, name)["instances"] == 0 {
				return errors.New("none yet")
			}
			return nil
		})
		awaitShoot(t, name, "its status", func(o *unstructured.Unstructured) bool {
			if lastOperation(o, "type") != operation || lastOperation(o, "state") == "Succeeded" {
				t.Fatalf("Shoot %s is not in its operation %s any more:\n%s", name, operation, statusText(o))
			}
			return true
		})
	}

	step(t, "one that is being created", func(t *testing.T) {
		startsMachines(t, unborn, "Create")
		remove(t, unborn)
		awaitGone(t, unborn)
	})
	awaitSucceeded(t, napping)
	kubeconfig := shootKubeconfig(t, napping)
	costly(t, kubeconfig)
	for _, name := range []string{napping, yawning} {
		awaitShoot(t, name, "conditions and constraints to be True", func(o *unstructured.Unstructured) bool {
			return succeeded(o) && allWell(o)
		})
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p",
			`{"spec":{"hibernation":{"enabled":true}}}`)
	}
	step(t, "one that is hibernated, without machines", func(t *testing.T) {
		awaitSucceeded(t, napping)
		cloudHas(t, napping, map[string]int{"networks": 1, "load-balancers": 1, "volumes": 1})
		remove(t, napping, "shoot.gardener.cloud/cleanup-webhooks-finalize-grace-period-seconds=5",
			"shoot.gardener.cloud/cleanup-extended-apis-finalize-grace-period-seconds=5",
			"shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds=20")
		eventually(t, "Shoot "+napping+" to be gone", func() error {
			if n := cloudObjectsOf(t, napping)["instances"]; n > 0 {
				t.Fatalf("the deletion of a hibernated Shoot starts %d instances", n)
			}
			if out := kubectl(t, garden, "-n", projectNS, "get", "shoot", napping, "--ignore-not-found"); out != "" {
				return errors.New(out)
			}
			return nil
		})
		awaitGone(t, napping)
	})
	step(t, "one that wakes up", func(t *testing.T) {
		awaitSucceeded(t, yawning)
		cloudHas(t, yawning, map[string]int{"networks": 1})
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", yawning, "--type=merge", "-p",
			`{"spec":{"hibernation":{"enabled":false}}}`)
		startsMachines(t, yawning, "Reconcile")
		remove(t, yawning)
		awaitGone(t, yawning)
	})
}

func withoutManualUpdates(o *unstructured.Unstructured) bool {
	return conditionOf(o, "constraints", "ManualInPlaceWorkersUpdated") == nil
}

// costly creates objects that represent something in the cloud, and others that block a deletion.
func costly(t *testing.T, kubeconfig string) {
	t.Helper()
	applyClingy(t, kubeconfig)
	if out, err := applyText(t, kubeconfig, example(t, "workload.yaml")); err != nil {
		t.Fatalf("apply the workload: %v\n%s", err, out)
	}
	kubectl(t, kubeconfig, "patch", "service", "echo", "-p", `{"spec":{"type":"LoadBalancer"}}`)
	kubectl(t, kubeconfig, "rollout", "status", "deployment/echo", withPatience)
	publicAddress(t, kubeconfig, "echo")
}

// onlyCostlyIsDeleted waits until the Service and the claim made by [costly] are gone. The others of its objects must
// not be in deletion then.
func onlyCostlyIsDeleted(t *testing.T, name, kubeconfig string) {
	t.Helper()
	client := dynamicClient(t, kubeconfig)
	list := func(resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
		found, err := client.Resource(resource).Namespace(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			if kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "--ignore-not-found", "-o",
				"name") == "" {
				t.Fatal("the Shoot is gone, and the end of its Service was not observed")
			}
			return nil, err
		}
		return found.Items, nil
	}
	eventually(t, "the end of the Service and of the claim", func() error {
		var left []string
		for resource, object := range map[string]string{"services": "echo", "persistentvolumeclaims": "keeper"} {
			found, err := list(schema.GroupVersionResource{Version: "v1", Resource: resource})
			if err != nil {
				return err
			}
			for _, o := range found {
				if o.GetName() == object {
					left = append(left, resource+"/"+object)
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there are %q", left)
		}
		var untouched []string
		for _, resource := range []schema.GroupVersionResource{
			appsv1.SchemeGroupVersion.WithResource("deployments"),
			{Group: "clingy.example.com", Version: "v1", Resource: "things"},
			{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		} {
			found, err := list(resource)
			if err != nil {
				return err
			}
			for _, o := range found {
				if o.GetDeletionTimestamp() == nil {
					untouched = append(untouched, o.GetName())
				}
			}
		}
		for _, want := range []string{"echo", "keeper", "kept", "thing", "things.clingy.example.com"} {
			if !slices.Contains(untouched, want) {
				t.Fatalf("%s is cleaned up; only %q are left", want, untouched)
			}
		}
		return nil
	})
}
