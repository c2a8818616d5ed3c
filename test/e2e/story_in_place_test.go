//go:build landscape

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

const (
	labelCandidate = "node.machine.sapcloud.io/candidate-for-update"
	labelSelected  = "node.machine.sapcloud.io/selected-for-update"
	labelResult    = "node.machine.sapcloud.io/update-result"

	annotationUpdatingOS = "node-agent.gardener.cloud/updating-operating-system-version"

	// registryOfImages is the file of a machine with the registry of images, and rollback is a drop-in of its node agent's
	// unit.
	registryOfImages = "/etc/containerd/certs.d/_default/hosts.toml"
	rollback         = "/etc/systemd/system/gardener-node-agent.service.d/rollback.conf"
)

// TestUpdatesInPlace gives four pools another machine image. One machine cannot install it, another boots the old one
// again: both stay until their owner forces their pools to a third image. One does not get the image in time and is
// replaced. A pool with surge keeps its size meanwhile. Two machines wait until their user selects them, one after the
// other. The last update is interrupted.
func TestUpdatesInPlace(t *testing.T) {
	story(t, firstSeed)
	const name = "in-place"
	garden := kubeconfigOf("garden")
	applyShoot(t, "shoot-in-place.yaml")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	failing, slow := nodeOfPool(t, kubeconfig, "failing"), nodeOfPool(t, kubeconfig, "slow")
	surging, byHand := nodesOfPool(t, kubeconfig, "surging"), nodesOfPool(t, kubeconfig, "by-hand")
	if len(surging) != 2 || len(byHand) != 2 {
		t.Fatalf("there are %d and %d nodes, want 2 and 2", len(surging), len(byHand))
	}
	instance := instanceOf(t, failing.Name)
	// The update fails to write a file where a directory is, and the registry of images is missing.
	runOn(t, failing.Name, "mkdir", "/etc/os-release.new")
	runOn(t, slow.Name, "mv", registryOfImages, "/root")
	// The old version comes back at each boot.
	runOn(t, byHand[0].Name, "cp", "/etc/os-release", "/etc/os-release.old")
	runOn(t, byHand[0].Name, "mkdir", "-p", "/etc/systemd/system/gardener-node-agent.service.d")
	const dropIn = `[Service]\nExecStartPre=/bin/cp /etc/os-release.old /etc/os-release\n`
	runOn(t, byHand[0].Name, "sh", "-c", "printf '"+dropIn+"' > "+rollback)
	counts := watchCounts(t, dynamicClient(t, kubeconfig).Resource(corev1.SchemeGroupVersion.WithResource("nodes")),
		"worker.gardener.cloud/pool=surging", nodeReady)

	failsEarly := watchFailures(t, name)

	change := func(patch string) {
		t.Helper()
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p", "["+patch+"]")
	}
	failed := func(node, reason string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			_, text, found := strings.Cut(lastOperation(o, "description"), fmt.Sprintf("machine %q failed", node))
			return found && strings.Contains(text, reason)
		}
	}
	seen := watchShoot(t, name, map[string]func(*unstructured.Unstructured) bool{
		"the machine that took too long is named": failed(slow.Name, "failed to in-place update in 1s"),
		"the machine that could not install its image is named": failed(failing.Name,
			"system failure: install hortus.dev/machine:1.1.0"),
		"the machine that runs the old image again is named": failed(byHand[0].Name, "rolled back: it runs 1.0.0"),
	})

	step(t, "changes that require another machine are rejected", func(t *testing.T) {
		changeIsRefused(t, name, replaceIn(0, "machine/type", "medium"), "immutable")
		changeIsRefused(t, name, replaceIn(0, "updateStrategy", "AutoRollingUpdate"), "add a pool instead")
	})
	step(t, "pools to be updated are pending, and may not be changed meanwhile", func(t *testing.T) {
		var patch []string
		for pool := range 4 {
			patch = append(patch, replaceIn(pool, "machine/image/version", "1.1.0"))
		}
		change(strings.Join(patch, ","))
		awaitPending(t, name, pendingPools{Auto: []string{"failing", "slow", "surging"}, Manual: []string{"by-hand"}})
		changeIsRefused(t, name, replaceIn(0, "machine/image/version", "1.2.0"), "undergoing an update in place")
	})
	step(t, "a user selects one of two machines", func(t *testing.T) {
		for _, node := range byHand {
			awaitNode(t, kubeconfig, node.Name, "candidate", func(n *corev1.Node) bool {
				return n.Labels[labelCandidate] == "true"
			})
		}
		kubectl(t, kubeconfig, "label", "node", byHand[0].Name, labelSelected+"=true")
	})
	step(t, "the Shoot reports which updates have failed, and why", func(t *testing.T) {
		seen(t, "the machine that took too long is named")
		seen(t, "the machine that could not install its image is named")
		seen(t, "the machine that runs the old image again is named")
	})
	step(t, "other machines are updated nevertheless", func(t *testing.T) {
		awaitPool(t, kubeconfig, "surging", 2, "1.1.0")
		if least, most := counts(); least < 2 || most != 3 {
			t.Errorf("the pool had at least %d ready nodes and at most %d in all, want 2 and 3", least, most)
		}
		before, stay := sets.New(surging[0].UID, surging[1].UID), 0
		for _, node := range nodesOfPool(t, kubeconfig, "surging") {
			if before.Has(node.UID) {
				stay++
			}
		}
		if stay != 1 {
			t.Errorf("%d of its nodes were there before, want 1", stay)
		}
		waiting := nodeNamed(t, kubeconfig, byHand[1].Name)
		if image := waiting.Status.NodeInfo.OSImage; !strings.HasSuffix(image, "1.0.0") ||
			waiting.Labels[labelCandidate] != "true" {
			t.Errorf("the node that nobody has selected runs %s and has labels %v", image, waiting.Labels)
		}
	})
	step(t, "a machine is replaced after its time-out, unless that is disabled", func(t *testing.T) {
		failsEarly(t, "slow")
		awaitReplacement(t, kubeconfig, name, "slow", slow.Name)
		awaitPool(t, kubeconfig, "slow", 1, "1.1.0")
		for _, before := range []corev1.Node{failing, byHand[0]} {
			node := nodeNamed(t, kubeconfig, before.Name)
			if node.UID != before.UID || node.Labels[labelResult] != "failed" || !node.Spec.Unschedulable {
				t.Errorf("the node whose update failed: %s, labels %v, unschedulable %t", node.UID, node.Labels,
					node.Spec.Unschedulable)
			}
		}
		// Progressing and not False, since the update is still in progress.
		awaitShoot(t, name, "EveryNodeReady not to be True", func(o *unstructured.Unstructured) bool {
			condition := conditionOf(o, "conditions", "EveryNodeReady")
			message, _ := condition["message"].(string)
			named := strings.Contains(message, failing.Name) && strings.Contains(message, "system failure")
			return condition["status"] != "True" && named
		})
	})
	step(t, "their owner repairs them and forces another image", func(t *testing.T) {
		runOn(t, byHand[0].Name, "rm", rollback)
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation=force-in-place-update")
		change(replaceIn(0, "machine/image/version", "1.2.0") + "," + replaceIn(3, "machine/image/version", "1.2.0"))
		runOn(t, failing.Name, "rmdir", "/etc/os-release.new")
		awaitSucceeded(t, name)
		awaitUpdated(t, kubeconfig, failing, "1.2.0")
		awaitUpdated(t, kubeconfig, byHand[0], "1.2.0")
		if after := instanceOf(t, failing.Name); after == instance ||
			strings.Fields(after)[0] != strings.Fields(instance)[0] {
			t.Errorf("the instance was %s and is %s, want the same, booted more often", instance, after)
		}
		awaitPending(t, name, pendingPools{Manual: []string{"by-hand"}})
		changeIsRefused(t, name, replaceIn(0, "machine/image/version", "1.1.0"), "downgrade")
	})
	step(t, "nothing is pending when the last machine is updated by hand, also after an interruption", func(t *testing.T) {
		awaitShoot(t, name, "the constraint that names the pool", func(o *unstructured.Unstructured) bool {
			c := conditionOf(o, "constraints", "ManualInPlaceWorkersUpdated")
			message, _ := c["message"].(string)
			return c["status"] == "False" && strings.Contains(message, "by-hand")
		})
		last := byHand[1].Name
		runOn(t, last, "mv", registryOfImages, "/root")
		kubectl(t, kubeconfig, "label", "node", last, labelSelected+"=true")
		awaitNode(t, kubeconfig, last, "update begun", func(n *corev1.Node) bool {
			return n.Annotations[annotationUpdatingOS] == "1.2.0"
		})
		runOn(t, last, "mv", "/root/hosts.toml", registryOfImages)
		runOn(t, last, "/sbin/init", "ctl", "restart", "gardener-node-agent.service")
		awaitPending(t, name, pendingPools{})
		for _, node := range byHand {
			awaitUpdated(t, kubeconfig, node, "1.2.0")
		}
		awaitShoot(t, name, "no permission to force updates", func(o *unstructured.Unstructured) bool {
			_, forced := o.GetAnnotations()["gardener.cloud/operation"]
			return !forced
		})
	})
}

// inPlaceTime bounds the update in place of a node. It takes half a minute, on a busy machine two; it must not wait for
// a period of the machine controller, such as one of five minutes.
const inPlaceTime = 5 * time.Minute

// TestMinorsInPlace updates the kubelets of two pools to the minor version of their Shoot, without new machines except
// a surge of one.
func TestMinorsInPlace(t *testing.T) {
	story(t, firstSeed)
	const name = "minors"
	applyTestdata(t, kubeconfigOf("garden"), "shoot-minors.yaml", "")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	pools := []struct {
		name        string
		nodes, stay int
	}{{"steady", 1, 1}, {"surging", 2, 1}}
	first := sets.New[types.UID]()
	for _, pool := range pools {
		for _, node := range nodesOfPool(t, kubeconfig, pool.name) {
			first.Insert(node.UID)
			if got := node.Status.NodeInfo.KubeletVersion; got != "v1.35.4" {
				t.Errorf("node %s runs Kubernetes %s before the update", node.Name, got)
			}
		}
	}
	counts := watchCounts(t, dynamicClient(t, kubeconfig).Resource(corev1.SchemeGroupVersion.WithResource("nodes")),
		"worker.gardener.cloud/pool=surging", nodeReady)
	took := watchUpdateInPlace(t, kubeconfig, "steady")
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=json", "-p",
		"["+replaceIn(0, "kubernetes/version", "1.36.3")+","+replaceIn(1, "kubernetes/version", "1.36.3")+"]")
	awaitPending(t, name, pendingPools{Auto: []string{"steady", "surging"}})
	awaitSucceeded(t, name)
	awaitPending(t, name, pendingPools{})
	if least, most := counts(); least < 2 || most != 3 {
		t.Errorf("the pool had at least %d ready nodes and at most %d in all, want 2 and 3", least, most)
	}
	if got := took(); got >= inPlaceTime {
		t.Errorf("the update of the only node of a pool took %s, want less than %s", got, inPlaceTime)
	}
	for _, pool := range pools {
		awaitPool(t, kubeconfig, pool.name, pool.nodes, "1.2.0")
		stay := 0
		for _, node := range nodesOfPool(t, kubeconfig, pool.name) {
			if first.Has(node.UID) {
				stay++
			}
			if got := node.Status.NodeInfo.KubeletVersion; got != "v1.36.3" {
				t.Errorf("node %s runs Kubernetes %s after the update", node.Name, got)
			}
		}
		if stay != pool.stay {
			t.Errorf("%d nodes of pool %s were there before, want %d", stay, pool.name, pool.stay)
		}
	}
}

// watchUpdateInPlace watches the only node of a pool. It returns a function that waits until the node has been updated
// in place, and returns the time from its first label of the update until it had none and accepted pods.
func watchUpdateInPlace(t *testing.T, kubeconfig, pool string) func() time.Duration {
	t.Helper()
	var mu sync.Mutex
	var began, ended time.Time
	resource := dynamicClient(t, kubeconfig).Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	startInformer(t, resource, "worker.gardener.cloud/pool="+pool, cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, after any) {
			mu.Lock()
			defer mu.Unlock()
			node := after.(*unstructured.Unstructured)
			cordoned, _, _ := unstructured.NestedBool(node.Object, "spec", "unschedulable")
			labels := sets.KeySet(node.GetLabels())
			switch updating := labels.HasAny(labelCandidate, labelSelected, labelResult); {
			case updating && began.IsZero():
				began = time.Now()
			case !updating && !cordoned && !began.IsZero() && ended.IsZero():
				ended = time.Now()
			}
		},
	})
	return func() time.Duration {
		t.Helper()
		eventually(t, "an update in place of pool "+pool, func() error {
			mu.Lock()
			defer mu.Unlock()
			if ended.IsZero() {
				return fmt.Errorf("begun at %s, not ended", began)
			}
			return nil
		})
		t.Logf("the update in place of pool %s took %s", pool, ended.Sub(began).Round(time.Second))
		return ended.Sub(began)
	}
}

// replaceIn is the part of a JSON patch that changes a field of a pool.
func replaceIn(pool int, field, value string) string {
	return fmt.Sprintf(`{"op":"replace","path":"/spec/provider/workers/%d/%s","value":%q}`, pool, field, value)
}

// runOn runs a command on an instance, as administrators of the cloud's host do.
func runOn(t *testing.T, instance string, command ...string) {
	t.Helper()
	hortus(t, append([]string{
		"cloud", "instances", "exec", instance, "--", "/bin/sh", "-c", `exec "$@"`, "sh",
	}, command...)...)
}

// changeIsRefused has a user try a change that must be rejected for the given reason.
func changeIsRefused(t *testing.T, shoot, patch, reason string) {
	t.Helper()
	out, err := kubectlE(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", shoot, "--type=json", "-p", "["+
		patch+"]")
	if err == nil || !strings.Contains(out, reason) {
		t.Errorf("patch %s: %v, want a problem with %q\n%s", patch, err, reason, out)
	}
}

// pendingPools are the pools that a Shoot's status shows as not updated yet.
type pendingPools struct{ Auto, Manual []string }

func awaitPending(t *testing.T, shoot string, want pendingPools) {
	t.Helper()
	awaitShoot(t, shoot, fmt.Sprintf("pools to be updated: %+v", want), func(o *unstructured.Unstructured) bool {
		var got pendingPools
		path := []string{"status", "inPlaceUpdates", "pendingWorkerUpdates"}
		got.Auto, _, _ = unstructured.NestedStringSlice(o.Object, append(path, "autoInPlaceUpdate")...)
		got.Manual, _, _ = unstructured.NestedStringSlice(o.Object, append(path, "manualInPlaceUpdate")...)
		_, shown, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "inPlaceUpdates")
		return cmp.Equal(got, want) && shown == (len(want.Auto)+len(want.Manual) > 0)
	})
}

// nodeNamed returns a node; an empty one if there is none of this name.
func nodeNamed(t *testing.T, kubeconfig, name string) *corev1.Node {
	t.Helper()
	for _, node := range nodesOf(t, kubeconfig, "kubernetes.io/hostname="+name) {
		return &node
	}
	return &corev1.Node{}
}

func awaitNode(t *testing.T, kubeconfig, name, what string, holds func(*corev1.Node) bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("node %s: %s", name, what), func() error {
		if node := nodeNamed(t, kubeconfig, name); !holds(node) {
			return fmt.Errorf("it runs %q, is unschedulable: %t, has labels %v and taints %v",
				node.Status.NodeInfo.OSImage, node.Spec.Unschedulable, node.Labels, node.Spec.Taints)
		}
		return nil
	})
}

// awaitUpdated waits until a node, which is still the same, runs an image and accepts pods, with no labels or taints of
// the update.
func awaitUpdated(t *testing.T, kubeconfig string, before corev1.Node, image string) {
	t.Helper()
	awaitNode(t, kubeconfig, before.Name, "updated to "+image, func(n *corev1.Node) bool {
		return n.UID == before.UID && updated(n, image)
	})
}

// awaitPool waits until a pool has the given number of nodes, all of which run an image and accept pods.
func awaitPool(t *testing.T, kubeconfig, pool string, size int, image string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d nodes of pool %s with image %s", size, pool, image), func() error {
		nodes := nodesOfPool(t, kubeconfig, pool)
		done := sets.New[types.UID]()
		for i := range nodes {
			if updated(&nodes[i], image) {
				done.Insert(nodes[i].UID)
			}
		}
		if len(nodes) != size || done.Len() != size {
			return fmt.Errorf("%d of %d nodes", done.Len(), len(nodes))
		}
		return nil
	})
}

// updated reports whether a node runs an image and accepts pods, and has none of the labels of an update.
func updated(n *corev1.Node, image string) bool {
	for _, label := range []string{labelCandidate, labelSelected, labelResult} {
		if _, found := n.Labels[label]; found {
			return false
		}
	}
	return strings.HasSuffix(n.Status.NodeInfo.OSImage, image) && !n.Spec.Unschedulable && len(n.Spec.Taints) == 0
}
