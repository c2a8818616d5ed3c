//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Indexes of the pools in shoot-pools.yaml.
const (
	red = iota
	green
	blue
	grey
)

// movedReservations are resources that nodes reserve, moved between the kubelet and the system; the sum is that of
// shoot-pools.yaml.
const movedReservations = `"kubeReserved":{"cpu":"30m","memory":"128Mi","pid":"20k"},"systemReserved":{"cpu":"50m","memory":"128Mi"}`

// nonTriggers change much of a Shoot and its pools, but require no new machines according to the documents: settings of
// the kubelet that do not count, files that are synchronized to nodes, timeouts of the machine controller, and settings
// that do not concern machines.
var nonTriggers = strings.Join([]string{
	`{"op":"replace","path":"/spec/kubernetes/kubelet","value":{` +
		movedReservations + `,"maxPods":77,"imageGCHighThresholdPercent":70,
		"evictionSoft":{"memoryAvailable":"60Mi"},"evictionSoftGracePeriod":{"memoryAvailable":"1m"}}}`,
	`{"op":"add","path":"/spec/kubernetes/kubeControllerManager","value":{"nodeMonitorGracePeriod":"50s"}}`,
	// This field counts up to Kubernetes 1.33, and with IPVS.
	`{"op":"add","path":"/spec/systemComponents","value":{"nodeLocalDNS":{"enabled":true}}}`,
	addTo(red, "labels", `{"example.com/label":"new"}`),
	addTo(red, "annotations", `{"example.com/annotation":"new"}`),
	addTo(red, "taints", `[{"key":"example.com/taint","value":"new","effect":"PreferNoSchedule"}]`),
	addTo(green, "maximum", `2`),
	addTo(green, "maxSurge", `2`),
	addTo(green, "maxUnavailable", `1`),
	addTo(green, "priority", `5`),
	addTo(blue, "machineControllerManager",
		`{"machineDrainTimeout":"20m","machineHealthTimeout":"11m","maxEvictRetries":7,"nodeConditions":["Rusty"]}`),
	addTo(blue, "providerConfig",
		`{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"WorkerConfig","tags":{"example.com/tag":"new"}}`),
	addTo(grey, "dataVolumes", `[{"name":"data","size":"10Gi"}]`),
	addTo(grey, "sysctls", `{"net.core.somaxconn":"1024"}`),
}, ",")

// addTo is an operation of a JSON patch that sets a field of a pool.
func addTo(pool int, field, value string) string {
	return fmt.Sprintf(`{"op":"add","path":"/spec/provider/workers/%d/%s","value":%s}`, pool, field, value)
}

// TestPoolsRollOnRequest has a user change everything that requires no new machines, then step by step
// everything that does: pools are rolled concurrently, each for another reason, while one is updated in place. It also
// restarts the add-ons.
func TestPoolsRollOnRequest(t *testing.T) {
	story(t, firstSeed)
	const name = "pools"
	garden := kubeconfigOf("garden")
	t.Cleanup(func() { kubectl(t, garden, "-n", projectNS, "delete", "namespacedcloudprofile", "two-volumes") })
	applyShoot(t, "shoot-pools.yaml")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	pools := pooled{name, shootKubeconfig(t, name)}
	former := pools.kubeconfig
	token := tokenOf(t, former, "default")

	step(t, "changes that the documents do not list replace no machine", func(t *testing.T) {
		pools.apply(t, roll{
			patch: nonTriggers, asks: "rotate-ca-start-without-workers-rollout", done: rotation("certificateAuthorities"),
		})
		for _, pool := range []string{"red", "steady"} {
			node := nodeOfPool(t, pools.kubeconfig, pool)
			kube, system := reservedOn(t, pools.kubeconfig, node.Name)
			if diff := cmp.Diff(map[string]string{"cpu": "30m", "memory": "128Mi", "pid": "20k"}, kube); diff != "" {
				t.Errorf("kubeReserved of pool %s (-want +got):\n%s", pool, diff)
			}
			if diff := cmp.Diff(map[string]string{"cpu": "50m", "memory": "128Mi"}, system); diff != "" {
				t.Errorf("systemReserved of pool %s (-want +got):\n%s", pool, diff)
			}
			if got := node.Status.Capacity.Pods().Value(); got != 77 {
				t.Errorf("the node of pool %s has room for %d pods, want 77", pool, got)
			}
		}
	})
	step(t, "no other container runtime is available", func(t *testing.T) {
		changeIsRefused(t, name, addTo(red, "cri", `{"name":"docker"}`), "containerd")
	})
	step(t, "the plan and the documents list the pools that roll: by machine, image, volume and CAs", func(t *testing.T) {
		planned := plannedEffects(t, name)
		want := map[string][]string{"roll": {"green"}, "in-place": {"steady"}}
		if diff := cmp.Diff(want, planned); diff != "" {
			t.Errorf("effects of the plan (-want +got):\n%s", diff)
		}
		before, machines := pools.shoot(t), pools.machines(t)
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation=maintain")
		awaitShoot(t, name, "the maintenance", func(o *unstructured.Unstructured) bool {
			_, asked := o.GetAnnotations()["gardener.cloud/operation"]
			workers, _, _ := unstructured.NestedSlice(o.Object, "spec", "provider", "workers")
			image, _, _ := unstructured.NestedString(workers[green].(map[string]any), "machine", "image", "version")
			return !asked && image == "1.2.0"
		})
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p", "["+strings.Join([]string{
			`{"op":"add","path":"/metadata/annotations/gardener.cloud~1operation","value":"rotate-rollout-workers=own"}`,
			replaceIn(red, "machine/type", "medium"), replaceIn(blue, "volume/size", "30Gi"),
			replaceIn(grey, "volume/type", "fast"),
		}, ",")+"]")
		awaitShoot(t, name, "new machines", func(o *unstructured.Unstructured) bool {
			_, asked := o.GetAnnotations()["gardener.cloud/operation"]
			return !asked && succeeded(o)
		})
		rolled := append([]string{"red", "blue", "grey", "own"}, planned["roll"]...)
		slices.Sort(rolled)
		pools.compare(t, roll{pools: rolled}, before, machines)
		for _, pool := range []string{"green", "steady"} {
			if image := nodeOfPool(t, pools.kubeconfig, pool).Status.NodeInfo.OSImage; !strings.HasSuffix(image, "1.2.0") {
				t.Errorf("the node of pool %s runs %s", pool, image)
			}
		}
	})
	step(t, "settings of the kubelet that count roll their pools", func(t *testing.T) {
		kubelet := func(settings string) string { return `{"kubelet":{` + settings + `}}` }
		pools.apply(t, roll{
			patch: strings.Join([]string{
				addTo(red, "kubernetes", kubelet(strings.Replace(movedReservations, "30m", "40m", 1))),
				addTo(green, "kubernetes", kubelet(movedReservations+`,"evictionHard":{"memoryAvailable":"70Mi"}`)),
				addTo(blue, "kubernetes", kubelet(movedReservations+`,"cpuManagerPolicy":"static"`)),
			}, ","),
			asks: "rotate-serviceaccount-key-start-without-workers-rollout", done: rotation("serviceAccountKey"),
			pools: []string{"blue", "green", "red"},
		})
		if got := evictionThreshold(t, pools.kubeconfig, nodeOfPool(t, pools.kubeconfig, "green").Name); got != "70Mi" {
			t.Errorf("the kubelet has the threshold %q", got)
		}
	})
	step(t, "the Shoot's settings roll pools without their own; so do the key of service accounts and a request",
		func(t *testing.T) {
			pools.apply(t, roll{
				patch: `{"op":"replace","path":"/spec/kubernetes/kubelet/systemReserved/cpu","value":"60m"}`,
				asks:  "rotate-rollout-workers=own;rollout-workers=red",
				done: func(o *unstructured.Unstructured) bool {
					_, pending, _ := unstructured.NestedMap(o.Object, "status", "manualWorkerPoolRollout")
					return !pending
				},
				pools: []string{"grey", "own", "red"}, requested: []string{"red"},
			})
			for _, pool := range []string{"grey", "steady"} {
				if _, system := reservedOn(t, pools.kubeconfig,
					nodeOfPool(t, pools.kubeconfig, pool).Name); system["cpu"] != "60m" {
					t.Errorf("systemReserved of pool %s = %v", pool, system)
				}
			}
		})
	step(t, "the add-ons are restarted", func(t *testing.T) {
		uids := func() string {
			return kubectl(t, pools.kubeconfig, "-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-dns", "-o",
				"jsonpath={.items[*].metadata.uid}")
		}
		before := uids()
		const task = "shoot.gardener.cloud/tasks"
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, task+"=restartCoreAddons")
		awaitShoot(t, name, "the task to be done", func(o *unstructured.Unstructured) bool {
			_, asked := o.GetAnnotations()[task]
			return !asked && succeeded(o)
		})
		kubectl(t, pools.kubeconfig, "-n", "kube-system", "rollout", "status", "deployment/coredns", withPatience)
		if after := uids(); after == before {
			t.Errorf("the pods of CoreDNS are still %s", after)
		}
	})
	step(t, "rotations that have reached all pools are completed; former credentials are refused", func(t *testing.T) {
		applyTestdata(t, pools.kubeconfig, "on-steady.yaml", "")
		kubectl(t, pools.kubeconfig, "rollout", "status", "deployment/on-steady", withPatience)
		before := nodeOfPool(t, pools.kubeconfig, "steady")
		// No node of this pool has followed the rotations yet, as during a drain that takes long.
		answersOnSteady(t, pools.kubeconfig)
		pools.apply(t, roll{
			asks: "rotate-rollout-workers=red,green,blue,grey,steady", done: rotatedTo("Prepared"),
			pools: []string{"blue", "green", "grey", "red"},
		})
		pools.kubeconfig = shootKubeconfig(t, name)
		kubectl(t, former, "get", "namespaces")
		if status := statusWithToken(t, pools.kubeconfig, token); status != http.StatusOK {
			t.Errorf("before the completion, the former token gets status %d", status)
		}
		pools.apply(t, roll{
			asks: "rotate-ca-complete;rotate-serviceaccount-key-complete", done: rotatedTo("Completed"),
		})
		checkRefused(t, former)
		if status := statusWithToken(t, pools.kubeconfig, token); status != http.StatusUnauthorized {
			t.Errorf("after the completion, the former token gets status %d, want %d", status, http.StatusUnauthorized)
		}
		after := nodeOfPool(t, pools.kubeconfig, "steady")
		if after.UID != before.UID {
			t.Errorf("the node %s, which is updated in place, was replaced", before.Name)
		}
		for _, pool := range []string{"red", "green", "blue", "grey", "own", "steady"} {
			node := nodeOfPool(t, pools.kubeconfig, pool)
			kubectl(t, pools.kubeconfig, "get", "--raw", "/api/v1/nodes/"+node.Name+"/proxy/healthz")
		}
		answersOnSteady(t, pools.kubeconfig)
		// The kubelet and the node agent of that node have credentials that the API server still accepts: a new pod starts,
		// and a new setting arrives.
		kubectl(t, pools.kubeconfig, "rollout", "restart", "deployment/on-steady")
		kubectl(t, pools.kubeconfig, "rollout", "status", "deployment/on-steady", withPatience)
		awaitShoot(t, name, "conditions and constraints to be True", allWell)
	})
}

// answersOnSteady requires that the API server reaches the kubelet of the pool "steady".
func answersOnSteady(t *testing.T, kubeconfig string) {
	t.Helper()
	kubectl(t, kubeconfig, "logs", "deployment/on-steady")
	kubectl(t, kubeconfig, "exec", "deployment/on-steady", "--", "/echo", "get", "http://127.0.0.1:8080/")
}

// rotatedTo says whether the rotations of CAs and of the key of ServiceAccounts are in a phase.
func rotatedTo(phase string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		for _, credential := range []string{"certificateAuthorities", "serviceAccountKey"} {
			got, _, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", credential, "phase")
			if got != phase {
				return false
			}
		}
		return true
	}
}

// rotation says whether the rotation of a credential has begun and waits for the owner to roll pools.
func rotation(credential string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", credential, "phase")
		return phase == "WaitingForWorkersRollout"
	}
}

// plannedEffects are the pools of a Shoot by the effect on their machines that 'hortus plan' shows.
func plannedEffects(t *testing.T, shoot string) map[string][]string {
	t.Helper()
	var plan struct {
		Shoots []struct {
			Changes []struct {
				Effects []struct{ Pool, Effect string }
			}
		}
	}
	out := hortus(t, "plan", "-n", projectNS, shoot, "-o", "json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Shoots) != 1 {
		t.Fatalf("%v:\n%s", err, out)
	}
	effects := map[string][]string{}
	for _, change := range plan.Shoots[0].Changes {
		for _, e := range change.Effects {
			effects[e.Effect] = append(effects[e.Effect], e.Pool)
		}
	}
	return effects
}

// reservedOn reads the reserved resources from the kubelet of a node.
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
