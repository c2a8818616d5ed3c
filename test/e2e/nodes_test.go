//go:build landscape

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// checkUserContainerd has users add files to the configuration of containerd: the next pull uses a mirror; a runtime is
// used after a restart, which they request by annotation.
func checkUserContainerd(t *testing.T) {
	kubeconfig := shootKubeconfig(t, "two")
	// The first pod is created, the second rejected.
	applyTestdata(t, kubeconfig, "mirrored.yaml", "RuntimeClass \"users\" not found")
	eventually(t, "the pull to fail without a mirror", func() error {
		reason := kubectl(t, kubeconfig, "get", "pod", "mirrored", "-o",
			"jsonpath={.status.containerStatuses[0].state.waiting.reason}")
		if reason != "ErrImagePull" && reason != "ImagePullBackOff" {
			return fmt.Errorf("the pod waits for %q", reason)
		}
		return nil
	})
	files, err := os.ReadFile("testdata/node-files.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.ReplaceAll(string(files), "CREDENTIALS",
		registryCredentials(t, nodeOfPool(t, kubeconfig, "large").Name))
	if out, err := applyText(t, kubeconfig, manifest); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	kubectl(t, kubeconfig, "rollout", "status", "daemonset/node-files", withPatience)
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/mirrored", withPatience)

	applyTestdata(t, kubeconfig, "mirrored.yaml", "")
	eventually(t, "the runtime to be unknown before a restart", func() error {
		if out := kubectl(t, kubeconfig, "get", "events",
			"--field-selector=involvedObject.name=runtime"); !strings.Contains(out, "no runtime for") {
			return fmt.Errorf("events of the pod:\n%s", out)
		}
		return nil
	})
	restartContainerd(t, kubeconfig)
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/runtime", withPatience)
}

// registryCredentials are a node's credentials for pulling images.
func registryCredentials(t *testing.T, node string) string {
	t.Helper()
	hosts, err := os.ReadFile(filepath.Join(rootOf(t, node), "etc/containerd/certs.d/_default/hosts.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(hosts), `"Basic `)
	credentials, _, closed := strings.Cut(rest, `"`)
	if !found || !closed {
		t.Fatalf("the node %s has no credentials for the registry", node)
	}
	return credentials
}

// checkRollingUpdate changes a Shoot once, in a way that replaces the machines of one pool and only reconfigures the
// other's node: the first pool is rolled with surge, its workload is available throughout, and the second node keeps
// everything that users have put on it.
func checkRollingUpdate(t *testing.T) {
	kubeconfig := shootKubeconfig(t, "two")
	applyTestdata(t, kubeconfig, "guarded.yaml", "")
	kubectl(t, kubeconfig, "rollout", "status", "deployment/guarded", withPatience)
	rolled, kept := nodeOfPool(t, kubeconfig, "pool"), nodeOfPool(t, kubeconfig, "large")
	instance := instanceOf(t, kept.Name)

	client := dynamicClient(t, kubeconfig)
	pods := watchCounts(t, client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default"),
		"app=guarded", podReady)
	nodes := watchCounts(t, client.Resource(corev1.SchemeGroupVersion.WithResource("nodes")),
		"worker.gardener.cloud/pool=pool", nodeReady)
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", "two", "--type=json", "-p", `[
		{"op":"replace","path":"/spec/provider/workers/0/machine/type","value":"medium"},
		{"op":"replace","path":"/spec/provider/workers/1/maximum","value":2},
		{"op":"add","path":"/spec/provider/workers/1/labels/example.com~1late","value":"yes"},
		{"op":"add","path":"/spec/kubernetes/kubelet","value":{"maxPods":77}}]`)
	awaitSucceeded(t, "two")

	replacement := nodeOfPool(t, kubeconfig, "pool")
	if replacement.Name == rolled.Name || replacement.Labels[corev1.LabelInstanceTypeStable] != "medium" {
		t.Errorf("the node %s of the changed pool was followed by %s of type %s", rolled.Name, replacement.Name,
			replacement.Labels[corev1.LabelInstanceTypeStable])
	}
	if ready, most := nodes(); ready < 1 || most != 2 {
		t.Errorf("while the pool was rolled it had at least %d ready nodes and at most %d in all, want 1 and 2", ready, most)
	}
	if ready, _ := pods(); ready < 1 {
		t.Error("the workload was unavailable for a while")
	}
	for node := range strings.FieldsSeq(kubectl(t, kubeconfig, "get", "pods", "-l", "app=guarded", "-o",
		"jsonpath={.items[*].spec.nodeName}")) {
		if node != replacement.Name {
			t.Errorf("a pod is on %s, want the new node %s", node, replacement.Name)
		}
	}

	after := nodeOfPool(t, kubeconfig, "large")
	if after.Name != kept.Name || after.UID != kept.UID || instanceOf(t, after.Name) != instance {
		t.Errorf("the other pool's node %s (%s, %s) was followed by %s (%s, %s)", kept.Name, kept.UID, instance, after.Name,
			after.UID, instanceOf(t, after.Name))
	}
	if got := after.Status.Capacity.Pods().Value(); got != 77 || after.Labels["example.com/late"] != "yes" {
		t.Errorf("the node that stays has room for %d pods and labels %v", got, after.Labels)
	}
	restartContainerd(t, kubeconfig) // Containerd has to read the remaining files of the users again.
	kubectl(t, kubeconfig, "delete", "pod", "mirrored", "runtime")
	applyTestdata(t, kubeconfig, "mirrored.yaml", "")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/mirrored", "pod/runtime", withPatience)
}

// checkRotationLeavesNodes begins a rotation of CAs that does not replace nodes: logs and shells of their pods still
// work.
func checkRotationLeavesNodes(t *testing.T) {
	const name = "two"
	before := nodeOfPool(t, shootKubeconfig(t, name), "pool")
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "shoot", name,
		"gardener.cloud/operation=rotate-ca-start-without-workers-rollout")
	awaitShoot(t, name, "a rotation that waits for its nodes", func(o *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", "certificateAuthorities",
			"phase")
		return phase == "WaitingForWorkersRollout" && succeeded(o)
	})
	kubeconfig := shootKubeconfig(t, name)
	if after := nodeOfPool(t, kubeconfig, "pool"); after.UID != before.UID {
		t.Errorf("the node %s was replaced by %s", before.Name, after.Name)
	}
	kubectl(t, kubeconfig, "-n", "kube-system", "logs", "deployment/coredns")
	kubectl(t, kubeconfig, "get", "--raw", "/api/v1/nodes/"+before.Name+"/proxy/healthz")
}

// checkUpdateByHand adds a pool with manual in-place updates, changes it, and selects its node long after the Shoot has
// succeeded.
func checkUpdateByHand(t *testing.T) {
	garden, kubeconfig := kubeconfigOf("garden"), shootKubeconfig(t, "two")
	kubectl(t, garden, "-n", projectNS, "patch", "shoot", "two", "--type=json",
		"-p", `[{"op":"add","path":"/spec/provider/workers/-","value":
		{"name":"byhand","minimum":1,"maximum":1,"updateStrategy":"ManualInPlaceUpdate","machine":{"type":"small","image":{"name":"hortus-machine"}},"zones":["local-a"]}}]`)
	awaitSucceeded(t, "two")
	before := nodeOfPool(t, kubeconfig, "byhand")
	instance := instanceOf(t, before.Name)

	kubectl(t, garden, "-n", projectNS, "patch", "shoot", "two", "--type=json", "-p",
		`[{"op":"add","path":"/spec/provider/workers/2/kubernetes","value":{"kubelet":{"evictionHard":{"memoryAvailable":"70Mi"}}}}]`)
	awaitSucceeded(t, "two")
	awaitShoot(t, "two", "the constraint that names the pool", func(o *unstructured.Unstructured) bool {
		c := conditionOf(o, "constraints", "ManualInPlaceWorkersUpdated")
		message, _ := c["message"].(string)
		return c["status"] == "False" && strings.Contains(message, "byhand")
	})
	waiting := nodeOfPool(t, kubeconfig, "byhand")
	if waiting.Labels["node.machine.sapcloud.io/candidate-for-update"] != "true" {
		t.Errorf("the node has labels %v, want that of a candidate", waiting.Labels)
	}
	if got := evictionThreshold(t, kubeconfig, before.Name); got == "70Mi" {
		t.Error("the kubelet has the new threshold although nobody has selected its node")
	}

	kubectl(t, kubeconfig, "label", "node", before.Name, "node.machine.sapcloud.io/selected-for-update=true")
	awaitShoot(t, "two", "nothing to be pending", func(o *unstructured.Unstructured) bool {
		_, pending, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "inPlaceUpdates")
		return !pending && conditionOf(o, "constraints", "ManualInPlaceWorkersUpdated") == nil
	})
	after := nodeOfPool(t, kubeconfig, "byhand")
	if after.UID != before.UID || instanceOf(t, after.Name) != instance {
		t.Errorf("the node %s (%s) was followed by %s (%s)", before.Name, instance, after.Name, instanceOf(t, after.Name))
	}
	if got := evictionThreshold(t, kubeconfig, after.Name); got != "70Mi" {
		t.Errorf("the kubelet has the threshold %q", got)
	}
	eventually(t, "the node to accept pods again", func() error {
		node := nodeOfPool(t, kubeconfig, "byhand")
		if _, candidate := node.Labels["node.machine.sapcloud.io/candidate-for-update"]; candidate ||
			node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
		}
		return nil
	})
}

// evictionThreshold reads from a kubelet the free memory below which it evicts pods.
func evictionThreshold(t *testing.T, kubeconfig, node string) string {
	t.Helper()
	var config struct {
		KubeletConfig struct {
			EvictionHard map[string]string `json:"evictionHard"`
		} `json:"kubeletconfig"`
	}
	out := kubectl(t, kubeconfig, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/configz")
	if err := json.Unmarshal([]byte(out), &config); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return config.KubeletConfig.EvictionHard["memory.available"]
}

// restartContainerd requests restarts of containerd from the agents of all nodes, and waits for them.
func restartContainerd(t *testing.T, kubeconfig string) {
	t.Helper()
	kubectl(t, kubeconfig, "annotate", "nodes", "--all",
		"worker.gardener.cloud/restart-systemd-services=containerd.service")
	eventually(t, "containerd to be restarted on all nodes", func() error {
		if out := kubectl(t, kubeconfig, "get", "nodes", "-o",
			`jsonpath={.items[*].metadata.annotations.worker\.gardener\.cloud/restart-systemd-services}`); out != "" {
			return fmt.Errorf("still to be restarted: %s", out)
		}
		return nil
	})
}

// applyTestdata applies a file of this package. With a problem, the API must reject a part of it with this text.
func applyTestdata(t *testing.T, kubeconfig, file, problem string) {
	t.Helper()
	out, err := kubectlE(t, kubeconfig, "apply", "-f", filepath.Join("test/e2e/testdata", file))
	if (err != nil) != (problem != "") || !strings.Contains(out, problem) {
		t.Fatalf("apply %s: %v, want the problem %q\n%s", file, err, problem, out)
	}
}

// nodeOfPool returns the only node of a pool.
func nodeOfPool(t *testing.T, kubeconfig, pool string) corev1.Node {
	t.Helper()
	nodes := nodesOfPool(t, kubeconfig, pool)
	if len(nodes) != 1 {
		t.Fatalf("pool %s has %d nodes, want 1", pool, len(nodes))
	}
	return nodes[0]
}

func nodesOfPool(t *testing.T, kubeconfig, pool string) []corev1.Node {
	t.Helper()
	return nodesOf(t, kubeconfig, "worker.gardener.cloud/pool="+pool)
}

// nodesOf returns the nodes with a label.
func nodesOf(t *testing.T, kubeconfig, label string) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	out := kubectl(t, kubeconfig, "get", "nodes", "-l", label, "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// instanceOf returns the instance of a node, and how often it has booted.
func instanceOf(t *testing.T, node string) string {
	t.Helper()
	var instance struct {
		ID    string `json:"id"`
		Boots int    `json:"boots"`
	}
	out := hortus(t, "cloud", "instances", "get", node, "-o", "json")
	if err := json.Unmarshal([]byte(out), &instance); err != nil || instance.ID == "" {
		t.Fatalf("instance %s: %v\n%s", node, err, out)
	}
	return fmt.Sprintf("%s, booted %d times", instance.ID, instance.Boots)
}

// watchCounts watches objects, also from one API server to the next. It returns a function that ends the watch and
// returns the minimum number of ready objects and the maximum number of objects.
func watchCounts(
	t *testing.T, resource dynamic.ResourceInterface, selector string, ready func(*unstructured.Unstructured) bool,
) func() (least, most int) {
	t.Helper()
	least, most := 1<<30, 0
	there := map[string]bool{} // Whether the object of this name is ready.
	count := func() {
		now := 0
		for _, isReady := range there {
			if isReady {
				now++
			}
		}
		least, most = min(least, now), max(most, len(there))
	}
	see := func(obj any) {
		o := obj.(*unstructured.Unstructured)
		there[o.GetName()] = ready(o)
	}
	// Events are handled one after the other.
	end := startInformer(t, resource, selector, cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initially bool) {
			if see(obj); !initially {
				count()
			}
		},
		UpdateFunc: func(_, obj any) { see(obj); count() },
		DeleteFunc: func(obj any) {
			name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
			if err != nil {
				t.Error(err)
			}
			delete(there, name[strings.LastIndex(name, "/")+1:])
			count()
		},
	})
	return func() (int, int) {
		end()
		return least, most
	}
}

// startInformer watches the objects with a label, also from one API server to the next, until the returned function is
// called or the test ends. It returns when the handler has had the objects that exist.
func startInformer(
	t *testing.T, resource dynamic.ResourceInterface, selector string, handler cache.ResourceEventHandler,
) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return resource.Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, 0)
	handled, err := informer.AddEventHandler(handler)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	if !cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		t.Fatal("the objects with labels " + selector + " cannot be listed")
	}
	return end
}
