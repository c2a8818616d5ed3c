//go:build landscape

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkContainerRuntime has the owner of a Shoot add gVisor to a pool, run a pod in it, and remove it again. The pool
// keeps its node.
func checkContainerRuntime(t *testing.T) {
	hortus(t, "images", "build", "gvisor") // Otherwise the node waits until the first pull has built it.
	const name, pool, large = "two", "large", 1
	garden, seed, kubeconfig := kubeconfigOf("garden"), adminOf(seedOf(t, name)), shootKubeconfig(t, name)
	node := nodeOfPool(t, kubeconfig, pool)
	instance := instanceOf(t, node.Name)
	request := func(runtimes string) {
		t.Helper()
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p",
			"["+addTo(large, "cri", `{"name":"containerd","containerRuntimes":`+runtimes+`}`)+"]")
		awaitSucceeded(t, name)
	}
	objects := func() string {
		t.Helper()
		return kubectl(t, seed, "-n", "shoot--dev--"+name, "get", "containerruntimes.extensions.gardener.cloud", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.workerPool.name} {.status.lastOperation.state}{"\n"}{end}`)
	}
	classes := func() string {
		t.Helper()
		return kubectl(t, kubeconfig, "get", "runtimeclasses", "-o", "name")
	}
	config := filepath.Join(rootOf(t, node.Name), "etc/containerd/conf.d/gvisor.toml")

	changeIsRefused(t, name, addTo(large, "cri", `{"name":"containerd","containerRuntimes":[{"type":"kata"}]}`), "kata")
	request(`[{"type":"gvisor"}]`)
	if got, want := strings.TrimSpace(objects()), "gvisor-large large Succeeded"; got != want {
		t.Errorf("ContainerRuntimes are %q, want %q", got, want)
	}
	applyTestdata(t, kubeconfig, "sandboxed.yaml", "")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/sandboxed", withPatience)
	if got := kubectl(t, kubeconfig, "get", "pod", "sandboxed", "-o", "jsonpath={.spec.nodeName}"); got != node.Name {
		t.Errorf("the pod is on node %s, want %s of pool %s", got, node.Name, pool)
	}
	kernel := func(pod string) string {
		t.Helper()
		return kubectl(t, kubeconfig, "exec", pod, "--", "cat", "/proc/version")
	}
	if got := kernel("sandboxed"); !strings.Contains(got, "gvisor") {
		t.Errorf("the kernel of the pod is %s", got)
	}
	if got := kernel("mirrored"); strings.Contains(got, "gvisor") { // On the same node.
		t.Errorf("the kernel of a pod without the RuntimeClass is %s", got)
	}

	kubectl(t, kubeconfig, "delete", "pod", "sandboxed", withPatience)
	request(`[]`)
	if got := objects(); got != "" {
		t.Errorf("ContainerRuntimes after their removal from the pool: %s", got)
	}
	if got := classes(); strings.Contains(got, "gvisor") {
		t.Errorf("RuntimeClasses after the removal from the pool: %s", got)
	}
	if _, err := os.Stat(config); !os.IsNotExist(err) {
		t.Errorf("%s after the removal from the pool: %v", config, err)
	}
	after := nodeOfPool(t, kubeconfig, pool)
	if after.UID != node.UID || instanceOf(t, after.Name) != instance {
		t.Errorf("the node %s was followed by %s", node.Name, after.Name)
	}
	if _, labelled := after.Labels["containerruntime.worker.gardener.cloud/gvisor"]; labelled {
		t.Error("the node still has the label of the runtime")
	}
}
