//go:build landscape

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// defaultTimeout is the default of machineHealthTimeout and machineCreationTimeout: a machine that fails earlier fails
// because of the timeout of its pool.
const defaultTimeout = 10 * time.Minute

// longWaitForLate is the progress of an operation that has long waited for a machine of the pool "late", with the last
// event about the machines.
var longWaitForLate = regexp.MustCompile(
	`machine "shoot--dev--failing-late-[^"]*" has not joined[^;]* \(for more than \d+[mh]; last event at `)

// TestMachinesThatFail has all machines wait for a build of their Kubernetes version at first. Then it has one machine
// lose its hardware, one report a bad condition, one never join, and two run pods
// that must not be evicted. Each is replaced after the timeout of its pool, and the Shoot reports what it waits for
// meanwhile.
func TestMachinesThatFail(t *testing.T) {
	story(t, firstSeed)
	const name = "failing"
	garden := kubeconfigOf("garden")
	setFault(t, "build-of-failing", "building", "PrepareImage", "--target", "shoot--dev--"+name)
	since := shootsVersion(t)
	applyTestdata(t, garden, "shoot-machines.yaml", "")
	t.Cleanup(func() { deleteShoot(t, name) })
	step(t, "a Shoot whose version is being built says so, and machines are created when it is there", func(t *testing.T) {
		checkBuild(t, name, since)
	})
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	first := map[string]corev1.Node{}
	for _, pool := range []string{"dying", "rusty", "held", "patient"} {
		first[pool] = nodeOfPool(t, kubeconfig, pool)
	}
	if out, err := applyText(t, kubeconfig, fmt.Sprintf(podOnPools, "dying")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	applyTestdata(t, kubeconfig, "unwilling.yaml", "")
	for _, deployment := range []string{"on-dying", "unwilling", "needed"} {
		kubectl(t, kubeconfig, "rollout", "status", "deployment/"+deployment, withPatience)
	}
	for budget, want := range map[string]string{"unwilling": "1 of 1, 0 may go", "few": "1 of 2, 0 may go"} {
		eventually(t, "the budget "+budget+" to hold its pods", func() error {
			got := kubectl(t, kubeconfig, "get", "pdb", budget, "-o",
				"jsonpath={.status.currentHealthy} of {.status.expectedPods}, {.status.disruptionsAllowed} may go")
			if got != want {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
	}

	// States that occur concurrently are awaited concurrently.
	seen := watchShoot(t, name, map[string]func(*unstructured.Unstructured) bool{
		"EveryNodeReady is False for the node that dies": func(o *unstructured.Unstructured) bool {
			condition := conditionOf(o, "conditions", "EveryNodeReady")
			message, _ := condition["message"].(string)
			return condition["status"] == "False" && strings.Contains(message, first["dying"].Name)
		},
		"the machine that does not join is named": func(o *unstructured.Unstructured) bool {
			_, text, found := strings.Cut(lastOperation(o, "description"), `machine "shoot--dev--failing-late-`)
			return found && strings.Contains(text, "has not joined") && strings.Contains(text, "(replaced after 3m0s)")
		},
		"a long wait for the machine says what happened last": func(o *unstructured.Unstructured) bool {
			return longWaitForLate.MatchString(lastOperation(o, "description"))
		},
		"the budget that holds up a drain is named": func(o *unstructured.Unstructured) bool {
			return strings.Contains(statusText(o), "pod disruption budget default/unwilling")
		},
		"the budget is a configuration problem that may pass": func(o *unstructured.Unstructured) bool {
			return slices.Contains(codesOf(o), "ERR_RETRYABLE_CONFIGURATION_PROBLEM") &&
				strings.Contains(errorsOf(o), "pod disruption budget default/unwilling")
		},
	})
	failsEarly := watchFailures(t, name)
	lose(t, first["dying"].Name)
	for _, pool := range []string{"rusty", "patient"} {
		kubectl(t, kubeconfig, "patch", "node", first[pool].Name, "--subresource=status", "--type=strategic", "-p",
			`{"status":{"conditions":[{"type":"Rusty","status":"True","reason":"Rain","message":"It has rained."}]}}`)
	}
	step(t, "a node with a bad condition is replaced, if the condition counts in its pool", func(t *testing.T) {
		failsEarly(t, "rusty")
		awaitReplacement(t, kubeconfig, name, "rusty", first["rusty"].Name)
		if node := nodeOfPool(t, kubeconfig, "patient"); node.UID != first["patient"].UID {
			t.Errorf("the node %s, whose pool does not list the condition, was replaced", first["patient"].Name)
		}
	})
	step(t, "a node that dies shows in the Shoot", func(t *testing.T) {
		seen(t, "EveryNodeReady is False for the node that dies")
	})
	kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p", `[
		{"op":"add","path":"/spec/provider/workers/-","value":
			{"name":"late","minimum":1,"maximum":1,"machine":{"type":"small","image":{"name":"hortus-machine","version":"1.2.0"}},
			"zones":["local-b"],"machineControllerManager":{"machineCreationTimeout":"3m"}}}]`)
	var late string
	eventually(t, "an instance of the new pool", func() error {
		instances := instancesOfPool(t, name, "late")
		if len(instances) != 1 {
			return fmt.Errorf("instances %v", instances)
		}
		late = instances[0]
		return nil
	})
	lose(t, late)
	step(t, "a machine that does not join shows in the Shoot, with the last event", func(t *testing.T) {
		seen(t, "the machine that does not join is named")
		seen(t, "a long wait for the machine says what happened last") // Before errors of drains hide it.
	})
	// By default the pod would be deleted after ten refused evictions, also before the drain ends.
	if got := kubectl(t, adminOf(seedOf(t, name)), "-n", "shoot--dev--"+name, "get", "machines.machine.sapcloud.io",
		first["patient"].Name, "-o", "jsonpath={.spec.maxEvictRetries} {.spec.drainTimeout}"); got != "1 1h0m0s" {
		t.Errorf("the machine of pool patient has evictions and drain timeout %q, want those of its pool", got)
	}
	kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p", `[
		{"op":"replace","path":"/spec/provider/workers/2/machine/type","value":"medium"},
		{"op":"replace","path":"/spec/provider/workers/3/machine/type","value":"medium"}]`)
	step(t, "pods that must not be evicted delay a rolling update no longer than the timeout of their pool", func(t *testing.T) {
		seen(t, "the budget that holds up a drain is named")
		seen(t, "the budget is a configuration problem that may pass")
		for pool, deployment := range map[string]string{"held": "unwilling", "patient": "needed"} {
			awaitReplacement(t, kubeconfig, name, pool, first[pool].Name)
			kubectl(t, kubeconfig, "rollout", "status", "deployment/"+deployment, withPatience)
		}
	})
	step(t, "a node that dies is replaced", func(t *testing.T) {
		failsEarly(t, "dying")
		awaitReplacement(t, kubeconfig, name, "dying", first["dying"].Name)
		kubectl(t, kubeconfig, "rollout", "status", "deployment/on-dying", withPatience)
	})
	step(t, "a machine that never joins is replaced", func(t *testing.T) {
		failsEarly(t, "late")
		awaitReplacement(t, kubeconfig, name, "late", late)
	})
	step(t, "then all is well", func(t *testing.T) {
		awaitSucceeded(t, name)
		awaitShoot(t, name, "conditions and constraints to be True again", allWell)
	})
}

// maxBeginning bounds the first progress above 0 of a creation, in percent. At that time etcd or the API server is not
// ready, for which most steps wait. Later leaps have no such bound: steps that are done as soon as they are reached
// drop out of the total.
const maxBeginning = 34

// checkBuild awaits that a Shoot whose images are being built says so, without an error, and has no machines yet, which
// would be replaced before the build ends. The progress of its creation begins with 0 and a small step. Then the build
// ends. The Shoot has been created after the version of the list of Shoots, so that each progress is observed.
func checkBuild(t *testing.T, name, since string) {
	var progress []int64
	var waiting *unstructured.Unstructured
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resource := dynamicClient(t, kubeconfigOf("garden")).Resource(shoots).Namespace(projectNS)
	if _, err := watchtools.Until(ctx, since, &shootWatch{resource, name}, func(e watch.Event) (bool, error) {
		if e.Type == watch.Error {
			return false, apierrors.FromObject(e.Object)
		}
		var isShoot bool
		if waiting, isShoot = e.Object.(*unstructured.Unstructured); !isShoot {
			return false, nil
		}
		percent, _, _ := unstructured.NestedInt64(waiting.Object, "status", "lastOperation", "progress")
		if lastOperation(waiting, "state") == "Processing" {
			progress = append(progress, percent)
		}
		text := lastOperation(waiting, "description")
		return strings.Contains(text, `machines of pool "dying" wait: hortus.dev/kubelet:v1.36.3 is being built`) &&
			strings.Contains(text, `machines of pool "patient" wait: `), nil
	}); err != nil {
		t.Fatalf("wait for the build in the last operation of Shoot %s: %v; it is\n%s", name, err, statusText(waiting))
	}
	if state, codes := lastOperation(waiting, "state"), codesOf(waiting); state != "Processing" || len(codes) > 0 {
		t.Errorf("while it waits for the build, the Shoot is %s with codes %v, want Processing:\n%s", state, codes,
			statusText(waiting))
	}
	if len(progress) == 0 || progress[0] != 0 || !slices.IsSorted(progress) {
		t.Errorf("progress of the creation is %v, want 0 at first, and then no less than before", progress)
	}
	progress = slices.Compact(progress)
	t.Logf("progress until machines wait for the build: %v", progress)
	if len(progress) > 1 && progress[1] > maxBeginning {
		t.Errorf("progress of the creation is %v, want no leap from 0 to more than %d", progress, maxBeginning)
	}
	for _, pool := range []string{"dying", "rusty", "held", "patient"} {
		if instances := instancesOfPool(t, name, pool); len(instances) > 0 {
			t.Errorf("pool %s has instances %v before its version is there", pool, instances)
		}
	}
	endFault(t, "build-of-failing")
}

// shootsVersion is the version of the list of Shoots: watches from it on see what happens to Shoots that are created
// later.
func shootsVersion(t *testing.T) string {
	t.Helper()
	resource := dynamicClient(t, kubeconfigOf("garden")).Resource(shoots).Namespace(projectNS)
	list, err := resource.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetResourceVersion()
}

// watchShoot watches a Shoot and returns a function that waits until the Shoot has had the named state at any time
// since.
func watchShoot(
	t *testing.T, name string, states map[string]func(*unstructured.Unstructured) bool,
) func(t *testing.T, state string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	resource := dynamicClient(t, kubeconfigOf("garden")).Resource(shoots).Namespace(projectNS)
	var mu sync.Mutex
	seen := map[string]bool{}
	look := func(o *unstructured.Unstructured) {
		mu.Lock()
		defer mu.Unlock()
		for state, holds := range states {
			seen[state] = seen[state] || holds(o)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; pause(ctx) { // Watches end from time to time.
			current, err := resource.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				continue
			}
			look(current)
			changes := &shootWatch{resource, name}
			_, _ = watchtools.Until(ctx, current.GetResourceVersion(), changes, func(e watch.Event) (bool, error) {
				if shoot, isShoot := e.Object.(*unstructured.Unstructured); isShoot && e.Type == watch.Modified {
					look(shoot)
				}
				return e.Type == watch.Error, nil
			})
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return func(t *testing.T, state string) {
		t.Helper()
		eventually(t, state, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !seen[state] {
				return errors.New("it has not been seen")
			}
			return nil
		})
	}
}

// lose makes the cloud lose the hardware of an instance, until the instance is deleted.
func lose(t *testing.T, instance string) {
	t.Helper()
	fault := "lost-" + instance
	hortus(t, "cloud", "faults", "set", "lost", "Instance", "--name", fault, "--target", instance)
	t.Cleanup(func() { hortus(t, "cloud", "faults", "delete", fault) })
}

// instancesOfPool names the instances that the cloud has for a pool of a Shoot.
func instancesOfPool(t *testing.T, shoot, pool string) []string {
	t.Helper()
	var list struct {
		Items []struct {
			Name string            `json:"name"`
			Tags map[string]string `json:"tags"`
		} `json:"items"`
	}
	out := hortus(t, "cloud", "instances", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	var names []string
	for _, instance := range list.Items {
		cluster := instance.Tags["cluster.hortus.dev/name"]
		if cluster == "shoot--dev--"+shoot && instance.Tags["cluster.hortus.dev/pool"] == pool {
			names = append(names, instance.Name)
		}
	}
	return names
}

// watchFailures watches the machines of a Shoot. The function that it returns waits until a machine of a pool has
// failed, and requires that it had been unhealthy, or had not joined, for less than the default timeout by then. Both
// times are from the status of the machine, so that neither drains nor other steps of the story count.
func watchFailures(t *testing.T, shoot string) func(t *testing.T, pool string) {
	t.Helper()
	var mu sync.Mutex
	began, lasted := map[string]time.Time{}, map[string]time.Duration{} // By the name of the machine.
	look := func(obj any) {
		mu.Lock()
		defer mu.Unlock()
		o := obj.(*unstructured.Unstructured)
		machine, changed := o.GetName(), timeIn(o, "status", "currentStatus", "lastUpdateTime")
		phase, _, _ := unstructured.NestedString(o.Object, "status", "currentStatus", "phase")
		_, known := began[machine]
		switch phase {
		case "", "Pending", "CrashLoopBackOff":
			began[machine] = o.GetCreationTimestamp().Time
		case "Unknown", "InPlaceUpdateFailed":
			if !known {
				began[machine] = changed
			}
		case "Failed":
			if _, failed := lasted[machine]; !failed {
				lasted[machine] = changed.Sub(began[machine])
			}
		default:
			delete(began, machine)
		}
	}
	resource := dynamicClient(t, adminOf(seedOf(t, shoot))).Resource(machines).Namespace("shoot--dev--" + shoot)
	startInformer(t, resource, "", cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, after any) { look(after) },
	})
	return func(t *testing.T, pool string) {
		t.Helper()
		eventually(t, "a machine of pool "+pool+" to fail", func() error {
			mu.Lock()
			defer mu.Unlock()
			for machine, after := range lasted {
				if !strings.HasPrefix(machine, "shoot--dev--"+shoot+"-"+pool+"-") {
					continue
				}
				t.Logf("machine %s has failed after %s", machine, after)
				if after >= defaultTimeout {
					t.Errorf("machine %s has failed after %s, want the timeout of its pool", machine, after)
				}
				return nil
			}
			return errors.New("none has failed")
		})
	}
}

// machines is the API of the machine controller.
var machines = schema.GroupVersionResource{Group: "machine.sapcloud.io", Version: "v1alpha1", Resource: "machines"}

// awaitReplacement waits until a pool has one machine, which is a new one, and whose node accepts pods.
func awaitReplacement(t *testing.T, kubeconfig, shoot, pool, before string) {
	t.Helper()
	eventually(t, "another machine than "+before, func() error {
		instances := instancesOfPool(t, shoot, pool)
		if len(instances) != 1 || instances[0] == before {
			return fmt.Errorf("the cloud has instances %v", instances)
		}
		nodes := nodesOfPool(t, kubeconfig, pool)
		if len(nodes) != 1 || nodes[0].Name != instances[0] {
			return fmt.Errorf("there are %d nodes for instance %s", len(nodes), instances[0])
		}
		ready := slices.ContainsFunc(nodes[0].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if !ready || nodes[0].Spec.Unschedulable {
			return fmt.Errorf("node %s: ready %t, unschedulable %t", nodes[0].Name, ready, nodes[0].Spec.Unschedulable)
		}
		return nil
	})
}
