//go:build landscape

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ownKubelet is a pool's own configuration of its kubelet in which everything differs that only the new hash counts.
const ownKubelet = `{"kubelet":{
	"kubeReserved":{"cpu":"100m","memory":"256Mi","pid":"20k"},"systemReserved":{"cpu":"100m"},
	"evictionHard":{"memoryAvailable":"70Mi"},"cpuManagerPolicy":"static"}}`

// classicNonTriggers are those of the new hash that are none of the classic one either, and those of its triggers that
// are none of the classic hash. Pools:
//   - red has its reservations moved between kubelet and system, and other metadata;
//   - green and blue have other settings of the machine deployment and controller;
//   - grey has everything else that only the new hash counts.
var classicNonTriggers = strings.Join([]string{
	`{"op":"replace","path":"/spec/kubernetes/kubelet","value":{` +
		movedReservations + `,"maxPods":77,"imageGCHighThresholdPercent":70,
		"evictionSoft":{"memoryAvailable":"60Mi"},"evictionSoftGracePeriod":{"memoryAvailable":"1m"}}}`,
	`{"op":"add","path":"/spec/kubernetes/kubeControllerManager","value":{"nodeMonitorGracePeriod":"50s"}}`,
	addTo(red, "labels", `{"example.com/label":"new"}`),
	addTo(red, "annotations", `{"example.com/annotation":"new"}`),
	addTo(red, "taints", `[{"key":"example.com/taint","value":"new","effect":"PreferNoSchedule"}]`),
	addTo(green, "maximum", `2`),
	addTo(green, "maxSurge", `2`),
	addTo(green, "maxUnavailable", `1`),
	addTo(green, "priority", `5`),
	addTo(blue, "machineControllerManager",
		`{"machineDrainTimeout":"20m","machineHealthTimeout":"11m","maxEvictRetries":7,"nodeConditions":["Rusty"]}`),
	addTo(grey, "dataVolumes", `[{"name":"data","size":"10Gi"}]`),
	addTo(grey, "sysctls", `{"net.core.somaxconn":"1024"}`),
	addTo(grey, "kubernetes", ownKubelet),
}, ",")

// TestClassicPoolsRollOnTheirTriggers is TestPoolsRollOnRequest for pools with the classic hash: each of its triggers
// replaces the machines of the pools that it concerns, and nothing else does. Settings of the kubelet that are no
// triggers reach kubelets that keep running, a policy of the CPU manager among them.
//
// The story needs the second seed exclusively, whose gardenlet it restarts.
func TestClassicPoolsRollOnTheirTriggers(t *testing.T) {
	story(t, bothSeeds)
	const name, seed = "vintage", "local-2"
	garden := kubeconfigOf("garden")
	restoreGardenlet(t, seed)
	reconfigureGardenlet(t, seed, func(config map[string]any) {
		config["featureGates"] = map[string]any{"NewWorkerPoolHash": false}
	})
	t.Cleanup(func() { kubectl(t, garden, "-n", projectNS, "delete", "namespacedcloudprofile", name) })
	applyShoot(t, "shoot-vintage.yaml")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	pools := pooled{name, shootKubeconfig(t, name)}
	apply := func(t *testing.T, r roll) {
		t.Helper()
		r.hash = classicHash
		pools.apply(t, r)
		const want = "red: classic, green: classic, blue: classic, grey: classic"
		if got := hashVersions(t, seed, name); got != want {
			t.Errorf("pools have the hashes %s, want %s", got, want)
		}
	}

	step(t, "changes that are no triggers of the classic hash replace no machine", func(t *testing.T) {
		apply(t, roll{
			patch: classicNonTriggers,
			asks:  "rotate-ca-start-without-workers-rollout", done: rotation("certificateAuthorities"),
		})
		for pool, want := range map[string]kubeletSettings{
			"red":   {cpu: "30m and 50m", threshold: "100Mi", policy: "none", pods: 77},
			"green": {cpu: "30m and 50m", threshold: "100Mi", policy: "none", pods: 77},
			"blue":  {cpu: "30m and 50m", threshold: "100Mi", policy: "none", pods: 77},
			"grey":  {cpu: "100m and 100m", threshold: "70Mi", policy: "static", pods: 110},
		} {
			if got := settingsOn(t, pools.kubeconfig, pool); got != want {
				t.Errorf("the kubelet of pool %s has %+v, want %+v", pool, got, want)
			}
		}
	})
	step(t, "machine type, machine image and size of the volume roll their pools", func(t *testing.T) {
		apply(t, roll{
			patch: strings.Join([]string{
				replaceIn(red, "machine/type", "medium"), replaceIn(green, "machine/image/version", "1.2.0"),
				replaceIn(blue, "volume/size", "30Gi"),
				addTo(grey, "kubernetes", strings.Replace(ownKubelet, "static", "none", 1)),
			}, ","),
			pools: []string{"blue", "green", "red"},
		})
		if got := settingsOn(t, pools.kubeconfig, "grey").policy; got != "none" {
			t.Errorf("the CPU manager of pool grey has the policy %s", got)
		}
	})
	step(t, "type of the volume, configuration of the provider, minor version and CAs do so, too", func(t *testing.T) {
		apply(t, roll{
			patch: strings.Join([]string{
				replaceIn(red, "volume/type", "fast"), replaceIn(blue, "kubernetes/version", "1.36.3"),
				addTo(green, "providerConfig",
					`{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"WorkerConfig","tags":{"example.com/tag":"new"}}`),
			}, ","),
			asks: "rotate-rollout-workers=grey", pools: []string{"blue", "green", "grey", "red"},
		})
		if version := nodeOfPool(t, pools.kubeconfig, "blue").Status.NodeInfo.KubeletVersion; version != "v1.36.3" {
			t.Errorf("the node of pool blue runs Kubernetes %s", version)
		}
	})
	step(t, "a new key of service accounts, and reservations that move back, roll no pool", func(t *testing.T) {
		apply(t, roll{
			patch: `{"op":"replace","path":"/spec/kubernetes/kubelet/kubeReserved/cpu","value":"60m"},
				{"op":"replace","path":"/spec/kubernetes/kubelet/systemReserved/cpu","value":"20m"}`,
			asks: "rotate-serviceaccount-key-start-without-workers-rollout", done: rotation("serviceAccountKey"),
		})
		if got := settingsOn(t, pools.kubeconfig, "green").cpu; got != "60m and 20m" {
			t.Errorf("the kubelet of pool green reserves %s", got)
		}
	})
	step(t, "the key rolls the pool that follows the rotation", func(t *testing.T) {
		apply(t, roll{asks: "rotate-rollout-workers=grey", pools: []string{"grey"}})
	})
	step(t, "the DNS cache rolls all pools", func(t *testing.T) {
		apply(t, roll{
			patch: `{"op":"add","path":"/spec/systemComponents","value":{"nodeLocalDNS":{"enabled":true}}}`,
			pools: []string{"blue", "green", "grey", "red"},
		})
		awaitShoot(t, name, "conditions to be True", func(o *unstructured.Unstructured) bool {
			for _, condition := range []string{"ControlPlaneHealthy", "EveryNodeReady", "SystemComponentsHealthy"} {
				if conditionOf(o, "conditions", condition)["status"] != "True" {
					return false
				}
			}
			return true
		})
	})
}

// kubeletSettings are settings of a kubelet, all but the number of pods counted by the new hash only.
type kubeletSettings struct {
	cpu       string // Reserved for the kubelet, and for the system.
	threshold string // Free memory below which it evicts pods.
	policy    string // Of the CPU manager.
	pods      int
}

// settingsOn reads the settings from the kubelet of a pool's only node, which is ready.
func settingsOn(t *testing.T, kubeconfig, pool string) kubeletSettings {
	t.Helper()
	node := nodeOfPool(t, kubeconfig, pool)
	var config struct {
		KubeletConfig struct {
			KubeReserved     map[string]string `json:"kubeReserved"`
			SystemReserved   map[string]string `json:"systemReserved"`
			EvictionHard     map[string]string `json:"evictionHard"`
			CPUManagerPolicy string            `json:"cpuManagerPolicy"`
			MaxPods          int               `json:"maxPods"`
		} `json:"kubeletconfig"`
	}
	out := kubectl(t, kubeconfig, "get", "--raw", "/api/v1/nodes/"+node.Name+"/proxy/configz")
	if err := json.Unmarshal([]byte(out), &config); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	c := &config.KubeletConfig
	return kubeletSettings{
		cpu:       c.KubeReserved["cpu"] + " and " + c.SystemReserved["cpu"],
		threshold: c.EvictionHard["memory.available"], policy: c.CPUManagerPolicy, pods: c.MaxPods,
	}
}
