//go:build landscape

package e2e

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestPoolsRollWhenTheyAreAsked has a user move reservations between the kubelet and the system, which keeps all machines, request
// new machines for one pool, and restart the add-ons.
func TestPoolsRollWhenTheyAreAsked(t *testing.T) {
	t.Parallel()
	story(t)
	const name = "pools"
	pools := []string{"asked", "steady"}
	applyTestdata(t, kubeconfigOf("garden"), "shoot-pools.yaml", "")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	nodes := map[string]corev1.Node{}
	for _, pool := range pools {
		nodes[pool] = nodeOfPool(t, kubeconfig, pool)
	}
	annotate := func(annotation string, done func(*unstructured.Unstructured) bool) {
		t.Helper()
		kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "--overwrite", "shoot", name, annotation)
		awaitShoot(t, name, annotation+" to be done", func(o *unstructured.Unstructured) bool {
			_, asked := o.GetAnnotations()["gardener.cloud/operation"]
			_, tasks := o.GetAnnotations()["shoot.gardener.cloud/tasks"]
			return !asked && !tasks && succeeded(o) && done(o)
		})
	}

	step(t, "reservations that move to the system replace and drain nothing", func(t *testing.T) {
		patchShoot(t, name, `{"spec":{"kubernetes":{"kubelet":{
			"kubeReserved":{"cpu":"30m","memory":"128Mi","pid":"20k"},"systemReserved":{"cpu":"50m","memory":"128Mi"}}}}}`)
		for _, pool := range pools {
			node := nodeOfPool(t, kubeconfig, pool)
			if node.UID != nodes[pool].UID {
				t.Errorf("the node of pool %s was replaced", pool)
			}
			kube, system := reservedOn(t, kubeconfig, node.Name)
			if diff := cmp.Diff(map[string]string{"cpu": "30m", "memory": "128Mi", "pid": "20k"}, kube); diff != "" {
				t.Errorf("kubeReserved of pool %s (-want +got):\n%s", pool, diff)
			}
			if diff := cmp.Diff(map[string]string{"cpu": "50m", "memory": "128Mi"}, system); diff != "" {
				t.Errorf("systemReserved of pool %s (-want +got):\n%s", pool, diff)
			}
		}
	})
	step(t, "a request rolls the pool that it names", func(t *testing.T) {
		annotate("gardener.cloud/operation=rollout-workers=asked", func(o *unstructured.Unstructured) bool {
			_, pending, _ := unstructured.NestedMap(o.Object, "status", "manualWorkerPoolRollout")
			return !pending && o.GetGeneration() == observedGeneration(o)
		})
		if node := nodeOfPool(t, kubeconfig, "asked"); node.UID == nodes["asked"].UID {
			t.Error("the node of the pool was not replaced")
		}
		if node := nodeOfPool(t, kubeconfig, "steady"); node.UID != nodes["steady"].UID {
			t.Error("the node of the other pool was replaced")
		}
	})
	step(t, "the add-ons are restarted", func(t *testing.T) {
		uids := func() string {
			return kubectl(t, kubeconfig, "-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-dns", "-o", "jsonpath={.items[*].metadata.uid}")
		}
		before := uids()
		annotate("shoot.gardener.cloud/tasks=restartCoreAddons", func(*unstructured.Unstructured) bool { return true })
		kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
		if after := uids(); after == before {
			t.Errorf("the pods of CoreDNS are still %s", after)
		}
	})
}

// observedGeneration is the generation of the Shoot that its gardenlet has worked on.
func observedGeneration(o *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return n
}

// reservedOn asks the kubelet of a node what it keeps from pods.
func reservedOn(t *testing.T, kubeconfig, node string) (kube, system map[string]string) {
	t.Helper()
	var config struct {
		KubeletConfig struct {
			KubeReserved   map[string]string `json:"kubeReserved"`
			SystemReserved map[string]string `json:"systemReserved"`
		} `json:"kubeletconfig"`
	}
	out := kubectl(t, kubeconfig, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/configz")
	if err := json.Unmarshal([]byte(out), &config); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return config.KubeletConfig.KubeReserved, config.KubeletConfig.SystemReserved
}
