//go:build landscape

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// memberGap bounds the time in which no write is acknowledged while a member of etcd is replaced or restarted: a
	// proposal may be lost when the leader changes, which etcd reports to its client after 7 s.
	memberGap = 20 * time.Second
	// members of an etcd that tolerates a failure.
	members = 3
)

// TestControlPlaneToleratesFailures scales etcd from one member to three in seeds of three nodes, while a client
// writes. Then a member loses its volume, a node of the seed restarts, all certificates are rotated, and the control
// plane moves to the other seed.
func TestControlPlaneToleratesFailures(t *testing.T) {
	story(t, everything)
	const name, source, destination, namespace = "trio", "local-2", "local-1", "shoot--dev--trio"
	t.Logf("%s", hortus(t, "up", "--seed-nodes=3"))
	t.Cleanup(func() { hortus(t, "up", "--seed-nodes=1") })
	applyShootOn(t, "shoot-workerless.yaml", name, source)
	awaitSucceeded(t, name)
	kubeconfig, seed := shootKubeconfig(t, name), adminOf(source)
	serverName := kubectl(t, kubeconfig, "config", "view", "--minify", "-o",
		"jsonpath={.clusters[0].cluster.tls-server-name}")
	w := startWriter(t, kubeconfig)

	w.during(t, "one member becomes three", memberGap, func() {
		patchShoot(t, name, `{"spec":{"controlPlane":{"highAvailability":{"failureTolerance":{"type":"zone"}}}}}`)
		awaitMembers(t, seed, namespace)
	})
	for _, component := range []string{"etcd-main", "kube-apiserver"} {
		if zones := zonesOf(t, seed, namespace, component); len(zones) < 2 {
			t.Errorf("pods of %s are in the zones %v", component, zones)
		}
	}
	if zones := zonesOf(t, seed, namespace, "etcd-main"); len(zones) != members {
		t.Errorf("members of etcd are in the zones %v", zones)
	}

	w.during(t, "a member loses its volume", memberGap, func() {
		const claim, pod = "main-etcd-etcd-main-1", "etcd-main-1"
		uid := kubectl(t, seed, "-n", namespace, "get", "pvc", claim, "-o", "jsonpath={.metadata.uid}")
		kubectl(t, seed, "-n", namespace, "delete", "pvc", claim, "--wait=false")
		kubectl(t, seed, "-n", namespace, "delete", "pod", pod, "--wait=false")
		eventually(t, "a new volume", func() error {
			now := kubectl(t, seed, "-n", namespace, "get", "pvc", claim, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
			if now == "" || now == uid {
				return fmt.Errorf("the claim is %q", now)
			}
			return nil
		})
		awaitMembers(t, seed, namespace)
	})

	w.during(t, "a node of the seed restarts", memberGap, func() {
		const node = "seed-2-node-2"
		before, containers := instanceOf(t, node), containersOn(t, seed, namespace, node)
		hortus(t, "cloud", "instances", "reboot", node)
		eventually(t, "the restart", func() error {
			if now := instanceOf(t, node); now == before {
				return fmt.Errorf("it is still %s", now)
			}
			return nil
		})
		eventually(t, "another container of the member on it", func() error {
			if now := containersOn(t, seed, namespace, node); now == "" || now == containers {
				return fmt.Errorf("still %s", now)
			}
			return nil
		})
		awaitMembers(t, seed, namespace)
	})

	rotate := func(operation, phase string) {
		t.Helper()
		w.during(t, operation, memberGap, func() {
			kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "--overwrite", "shoot", name,
				"gardener.cloud/operation="+operation)
			awaitShoot(t, name, "phase "+phase, func(o *unstructured.Unstructured) bool {
				got, _, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", "certificateAuthorities",
					"phase")
				return got == phase && succeeded(o)
			})
		})
	}
	rotate("rotate-ca-start", "Prepared")
	kubeconfig = shootKubeconfig(t, name)
	w.use(t, kubeconfig)
	rotate("rotate-ca-complete", "Completed")

	w.during(t, "the move to the other seed", moveGap, func() {
		hortus(t, "move", "shoot", name, "-n", projectNS, "--to", destination)
	})
	awaitMembers(t, adminOf(destination), namespace)
	awaitLeft(t, name, source)
	readdress(t, kubeconfig, serverName)
	t.Logf("%d acknowledged writes", w.check(t, kubeconfig))
}

// awaitMembers waits until all members of a control plane's etcd are ready.
func awaitMembers(t *testing.T, seed, namespace string) {
	t.Helper()
	eventually(t, "three members of etcd", func() error {
		out := kubectl(t, seed, "-n", namespace, "get", "statefulset", "etcd-main", "-o",
			"jsonpath={.status.readyReplicas}/{.status.replicas}")
		if out != fmt.Sprintf("%d/%d", members, members) {
			return fmt.Errorf("%s are ready", out)
		}
		return nil
	})
}

// containersOn returns the IDs of etcd's containers on a node.
func containersOn(t *testing.T, seed, namespace, node string) string {
	t.Helper()
	return kubectl(t, seed, "-n", namespace, "get", "pods", "-l", "app=etcd-main", "--field-selector=spec.nodeName="+node,
		"-o", "jsonpath={.items[*].status.containerStatuses[*].containerID}")
}

// zonesOf lists the zones of the nodes that the pods of a component are on.
func zonesOf(t *testing.T, seed, namespace, component string) []string {
	t.Helper()
	var zones []string
	for node := range strings.FieldsSeq(kubectl(t, seed, "-n", namespace, "get", "pods", "-l", "app="+component, "-o",
		"jsonpath={.items[*].spec.nodeName}")) {
		zones = append(zones, kubectl(t, seed, "get", "node", node, "-o",
			`jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`))
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}
