//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestUpdatesOfNodes updates a Shoot with one pool of machines that are replaced and two that are updated in place: first to another
// patch version of Kubernetes, which leaves all nodes and their pods as they are, then to another version of the machine image.
func TestUpdatesOfNodes(t *testing.T) {
	t.Parallel()
	story(t)
	const name = "updates"
	pools := []string{"classic", "steady", "surging"}
	applyTestdata(t, kubeconfigOf("garden"), "shoot-updates.yaml", "")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	nodes := map[string]corev1.Node{}
	for _, pool := range pools {
		if out, err := applyText(t, kubeconfig, fmt.Sprintf(podOnPools, pool)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		nodes[pool] = nodeOfPool(t, kubeconfig, pool)
	}
	for _, pool := range pools {
		kubectl(t, kubeconfig, "rollout", "status", "deployment/on-"+pool, "--timeout=120s")
	}

	step(t, "another patch version leaves nodes and pods as they are", func(t *testing.T) {
		before := startsOfPods(t, kubeconfig)
		patchShoot(t, name, `{"spec":{"kubernetes":{"version":"1.36.3"}}}`)
		for _, pool := range pools {
			node := nodeOfPool(t, kubeconfig, pool)
			if node.UID != nodes[pool].UID {
				t.Errorf("the node of pool %s was replaced", pool)
			}
			if got := node.Status.NodeInfo.KubeletVersion; got != "v1.36.3" {
				t.Errorf("the kubelet of pool %s has version %s", pool, got)
			}
		}
		for pod, start := range startsOfPods(t, kubeconfig) {
			if was := before[pod]; was != start {
				t.Errorf("container %s started at %s, before the update it was %q", pod, start, was)
			}
		}
	})
	step(t, "another machine image replaces the machines of one pool and updates those of the others", func(t *testing.T) {
		kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=json", "-p", `[
			{"op":"replace","path":"/spec/provider/workers/0/machine/image/version","value":"1.2.0"},
			{"op":"replace","path":"/spec/provider/workers/1/machine/image/version","value":"1.2.0"},
			{"op":"replace","path":"/spec/provider/workers/2/machine/image/version","value":"1.2.0"}]`)
		awaitSucceeded(t, name)
		for _, pool := range pools {
			node := nodeOfPool(t, kubeconfig, pool)
			if !strings.Contains(node.Status.NodeInfo.OSImage, "1.2.0") {
				t.Errorf("the node of pool %s runs %s", pool, node.Status.NodeInfo.OSImage)
			}
			if replaced := node.UID != nodes[pool].UID; replaced != (pool == "classic") {
				t.Errorf("the node of pool %s was replaced: %t", pool, replaced)
			}
		}
		out := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o", "jsonpath={.status.inPlaceUpdates}")
		if out != "" {
			t.Errorf("status.inPlaceUpdates = %s after the update", out)
		}
	})
}

// startsOfPods in the namespace default: when each container started, and how often.
func startsOfPods(t *testing.T, kubeconfig string) map[string]string {
	t.Helper()
	var list corev1.PodList
	if err := json.Unmarshal([]byte(kubectl(t, kubeconfig, "-n", metav1.NamespaceDefault, "get", "pods", "-o", "json")), &list); err != nil {
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
