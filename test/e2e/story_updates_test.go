//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// podOnPools runs one pod on each pool of the Shoot "updates".
const podOnPools = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: on-%[1]s
  namespace: default
spec:
  selector:
    matchLabels: {app: on-%[1]s}
  template:
    metadata:
      labels: {app: on-%[1]s}
    spec:
      nodeSelector: {worker.gardener.cloud/pool: %[1]s}
      terminationGracePeriodSeconds: 1
      containers:
      - {name: echo, image: "hortus.dev/echo:1.0.0", args: [serve, --port, "8080"]}
`

// updateGap bounds the time in which no write is acknowledged while the API server is updated. The goal is a second;
// the rest is for a machine that is busy with other stories.
const updateGap = 10 * time.Second

// TestUpdatesOfNodes updates a Shoot with one pool of machines that are replaced and two that are updated in place:
// first to another patch version of Kubernetes, which leaves all nodes and their pods as they are, then to another
// version of the machine image.
func TestUpdatesOfNodes(t *testing.T) {
	story(t, firstSeed)
	const name = "updates"
	// The number of nodes of each pool, and how many of them stay when the machine image changes: in a pool with surge all
	// but one.
	pools := []struct {
		name        string
		nodes, stay int
	}{{"classic", 1, 0}, {"steady", 1, 1}, {"surging", 2, 1}}
	awaitImage(t, "/v2/kube-apiserver/manifests/v1.36.1?ns=registry.k8s.io") // It may be built first.
	applyShoot(t, "shoot-updates.yaml")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	first := map[string]sets.Set[types.UID]{}
	for _, pool := range pools {
		if out, err := applyText(t, kubeconfig, fmt.Sprintf(podOnPools, pool.name)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		first[pool.name] = sets.New[types.UID]()
		for _, node := range nodesOfPool(t, kubeconfig, pool.name) {
			first[pool.name].Insert(node.UID)
		}
		if n := first[pool.name].Len(); n != pool.nodes {
			t.Fatalf("pool %s has %d nodes, want %d", pool.name, n, pool.nodes)
		}
	}
	for _, pool := range pools {
		kubectl(t, kubeconfig, "rollout", "status", "deployment/on-"+pool.name, withPatience)
	}
	// check the nodes of all pools, and how many are still the first ones.
	check := func(t *testing.T, nodeIsNew func(corev1.NodeSystemInfo) bool, stay func(pool int) int) {
		t.Helper()
		for i, pool := range pools {
			nodes := nodesOfPool(t, kubeconfig, pool.name)
			still := 0
			for _, node := range nodes {
				if first[pool.name].Has(node.UID) {
					still++
				}
				if !nodeIsNew(node.Status.NodeInfo) {
					t.Errorf("node %s of pool %s was not updated: %+v", node.Name, pool.name, node.Status.NodeInfo)
				}
			}
			if len(nodes) != pool.nodes || still != stay(i) {
				t.Errorf("pool %s has %d nodes, %d of them as before; want %d and %d", pool.name, len(nodes), still, pool.nodes,
					stay(i))
			}
		}
	}

	w := startWriter(t, kubeconfig)
	step(t, "another patch version leaves nodes and pods as they are", func(t *testing.T) {
		before := startsOfPods(t, kubeconfig)
		w.during(t, "the update to another patch version", updateGap, func() {
			patchShoot(t, name, `{"spec":{"kubernetes":{"version":"1.36.3"}}}`)
		})
		check(t, func(info corev1.NodeSystemInfo) bool { return info.KubeletVersion == "v1.36.3" },
			func(pool int) int { return pools[pool].nodes })
		for pod, start := range startsOfPods(t, kubeconfig) {
			if was := before[pod]; was != start {
				t.Errorf("container %s started at %s, before the update it was %q", pod, start, was)
			}
		}
	})
	step(t, "another machine image replaces the machines of one pool and updates those of the others", func(t *testing.T) {
		w.during(t, "the update of the machine image", updateGap, func() {
			kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=json", "-p", `[
				{"op":"replace","path":"/spec/provider/workers/0/machine/image/version","value":"1.2.0"},
				{"op":"replace","path":"/spec/provider/workers/1/machine/image/version","value":"1.2.0"},
				{"op":"replace","path":"/spec/provider/workers/2/machine/image/version","value":"1.2.0"}]`)
			awaitSucceeded(t, name)
		})
		check(t, func(info corev1.NodeSystemInfo) bool { return strings.Contains(info.OSImage, "1.2.0") },
			func(pool int) int { return pools[pool].stay })
		out := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o",
			"jsonpath={.status.inPlaceUpdates}")
		if out != "" {
			t.Errorf("status.inPlaceUpdates = %s after the update", out)
		}
	})
	t.Logf("%d acknowledged writes", w.check(t, kubeconfig))
}

// startsOfPods in the namespace default: when each container started, and how often.
func startsOfPods(t *testing.T, kubeconfig string) map[string]string {
	t.Helper()
	var list corev1.PodList
	if err := json.Unmarshal([]byte(kubectl(t, kubeconfig, "-n", metav1.NamespaceDefault, "get", "pods", "-o", "json")),
		&list); err != nil {
		t.Fatal(err)
	}
	starts := map[string]string{}
	for _, pod := range list.Items {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Running == nil {
				t.Errorf("container %s of pod %s does not run: %+v", c.Name, pod.Name, c.State)
				continue
			}
			starts[pod.Name+"/"+c.Name] = fmt.Sprintf("%s, %d restarts", c.State.Running.StartedAt, c.RestartCount)
		}
	}
	return starts
}
