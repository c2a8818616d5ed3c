//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSystemComponentsKeepTheirPlace: system components run on nodes with taints of the owner, if there are no others;
// they stay away from a pool that does not allow them; and kube-proxy goes when it is disabled.
func TestSystemComponentsKeepTheirPlace(t *testing.T) {
	story(t, firstSeed)
	const name = "placed"
	const pool = `{"name":%q,"minimum":1,"maximum":1,"machine":{"type":"small","image":{"name":"hortus-machine"}},` +
		`"zones":["local-a"],%s}`
	tainted := fmt.Sprintf(pool, "pool", `"taints":[{"key":"example.com/dedicated","value":"batch","effect":"NoSchedule"}]`)
	apart := fmt.Sprintf(pool, "apart", `"systemComponents":{"allow":false}`)
	manifest := strings.Replace(example(t, "shoot.yaml"), "    - name: pool\n",
		"    - name: pool\n      taints: [{key: example.com/dedicated, value: batch, effect: NoSchedule}]\n", 1)
	applyShootTextOn(t, manifest, name, "local-1")
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)

	step(t, "the only pool has a taint", func(t *testing.T) {
		node := nodeOfPool(t, kubeconfig, "pool")
		found := false
		for _, taint := range node.Spec.Taints {
			found = found || taint.Key == "example.com/dedicated"
		}
		if !found {
			t.Errorf("the node has taints %v", node.Spec.Taints)
		}
		awaitShoot(t, name, "conditions and constraints to be True", allWell)
	})
	step(t, "another pool allows no system components", func(t *testing.T) {
		patchShoot(t, name, `{"spec":{"provider":{"workers":[`+tainted+`,`+apart+`]}}}`)
		// Without the setting, the scheduler would place new replicas on the node without pods.
		for _, deployment := range []string{"coredns", "vpn-shoot"} {
			kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "restart", "deployment/"+deployment)
			kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "status", "deployment/"+deployment, withPatience)
		}
		node := nodeOfPool(t, kubeconfig, "apart")
		out := kubectl(t, kubeconfig, "-n", "kube-system", "get", "pods", "-o", "json",
			"--field-selector=spec.nodeName="+node.Name)
		var pods corev1.PodList
		if err := json.Unmarshal([]byte(out), &pods); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods.Items {
			if owner := pod.OwnerReferences; len(owner) == 0 || owner[0].Kind != "DaemonSet" {
				t.Errorf("pod %s runs on the node of the pool that allows no system components", pod.Name)
			}
		}
		if len(pods.Items) == 0 {
			t.Error("the node has no pods of DaemonSets")
		}
	})
	step(t, "kube-proxy goes when it is disabled", func(t *testing.T) {
		proxies := func() string {
			return kubectl(t, kubeconfig, "-n", "kube-system", "get", "daemonsets,pods", "-o", "name")
		}
		if !strings.Contains(proxies(), "kube-proxy") {
			t.Fatalf("there is no kube-proxy:\n%s", proxies())
		}
		patchShoot(t, name, `{"spec":{"kubernetes":{"kubeProxy":{"enabled":false}}}}`)
		eventually(t, "kube-proxy to be gone", func() error {
			if all := proxies(); strings.Contains(all, "kube-proxy") {
				return fmt.Errorf("there are\n%s", all)
			}
			return nil
		})
	})
}
