//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/hortus/local/cloud"
)

// TestVolumesOutliveNodes has a pod note each of its starts on a volume, while its node is replaced, its control plane
// is moved, and its cluster is hibernated. No note may be lost. The volume of a deleted claim is deleted, as are the
// volumes of a deleted Shoot. Data volumes of machines exist as long as these.
func TestVolumesOutliveNodes(t *testing.T) {
	story(t, bothSeeds)
	const name, source, destination, namespace = "durable", "local-1", "local-2", "shoot--dev--durable"
	garden := kubeconfigOf("garden")
	const dataVolumes = `      volume: {size: 20Gi}
      dataVolumes: [{name: kubelet, size: 10Gi}, {name: scratch, size: 5Gi}]
      kubeletDataVolumeName: kubelet
`
	const pool = "    - name: pool\n"
	applyShootTextOn(t, strings.Replace(example(t, "shoot.yaml"), pool, pool+dataVolumes, 1), name, source)
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	renew := func() { kubeconfig = shootKubeconfig(t, name) }
	var nodes []string // Nodes on which the pod was started, in order.
	started := func(t *testing.T) {
		t.Helper()
		var node string
		eventually(t, "a ready pod on an existing node", func() error {
			const state = `jsonpath={.metadata.deletionTimestamp}/{.status.conditions[?(@.type=="Ready")].status}/{.spec.nodeName}`
			out, err := kubectlE(t, kubeconfig, "get", "pod", "durable-0", "-o", state)
			if err != nil || !strings.HasPrefix(out, "/True/") {
				return fmt.Errorf("%s (%v)", out, err)
			}
			node = strings.TrimPrefix(out, "/True/")
			if out, err = kubectlE(t, kubeconfig, "get", "node", node, "-o", "name"); err != nil {
				return fmt.Errorf("%s: %w", out, err)
			}
			return nil
		})
		nodes = append(nodes, node)
		notes := strings.Fields(kubectl(t, kubeconfig, "exec", "durable-0", "--", "cat", "/data/starts"))
		if diff := cmp.Diff(nodes, notes); diff != "" {
			t.Errorf("nodes that the pod was started on, by its notes (-want +got):\n%s", diff)
		}
		volume := volumeOf(t, name, "default/data-durable-0")
		if volume == nil || volume.State != cloud.StateAttached ||
			!strings.HasPrefix(instanceOf(t, node), volume.InstanceID+",") {
			t.Errorf("the volume is %+v, want it attached to node %s", volume, node)
		}
	}

	step(t, "a pod writes to a volume of the cloud", func(t *testing.T) {
		applyTestdata(t, kubeconfig, "durable.yaml", "")
		started(t)
		kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/spare", withPatience)
		cloudHas(t, name, map[string]int{"instances": 1, "networks": 1, "dns": 2, "volumes": 2 + 2})
	})
	step(t, "the machine has its data volumes", func(t *testing.T) {
		checkDataVolumes(t, nodes[0])
	})
	step(t, "a volume is deleted with its claim", func(t *testing.T) {
		kubectl(t, kubeconfig, "delete", "pod/spare", "pvc/spare")
		eventually(t, "the cloud's list without the volume", func() error {
			if volume := volumeOf(t, name, "default/spare"); volume != nil {
				return fmt.Errorf("there is %+v", *volume)
			}
			return nil
		})
	})
	step(t, "a pod finds its data on another node after a rolling update", func(t *testing.T) {
		start := time.Now()
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p",
			`[{"op":"replace","path":"/spec/provider/workers/0/machine/type","value":"medium"}]`)
		awaitSucceeded(t, name)
		started(t)
		checkDataVolumes(t, nodes[len(nodes)-1])
		cloudHas(t, name, map[string]int{"instances": 1, "networks": 1, "dns": 2, "volumes": 1 + 2})
		t.Logf("rolled in %s", time.Since(start).Round(time.Second))
	})
	step(t, "after its machine was deleted, too", func(t *testing.T) {
		start := time.Now()
		kubectl(t, adminOf(source), "-n", namespace, "delete", "machine", nodes[len(nodes)-1], "--wait=false")
		awaitReplacement(t, kubeconfig, name, "pool", nodes[len(nodes)-1])
		started(t)
		t.Logf("replaced in %s", time.Since(start).Round(time.Second))
	})
	step(t, "a move of the control plane does not affect pod and volume", func(t *testing.T) {
		before := podStarts(t, kubeconfig)["durable-0"]
		hortus(t, "move", "shoot", name, "-n", projectNS, "--to", destination)
		awaitLeft(t, name, source)
		renew()
		if after := podStarts(t, kubeconfig)["durable-0"]; after != before {
			t.Errorf("the pod was started at %s with %s restarts, now at %s with %s", before[0], before[1], after[0], after[1])
		}
		kubectl(t, kubeconfig, "delete", "pod", "durable-0") // The controller of another seed attaches its volume.
		started(t)
	})
	step(t, "after hibernation, the data are there", func(t *testing.T) {
		awaitShoot(t, name, "conditions and constraints to be True", allWell)
		start := time.Now()
		patchShoot(t, name, `{"spec":{"hibernation":{"enabled":true}}}`)
		t.Logf("hibernated in %s", time.Since(start).Round(time.Second))
		cloudHas(t, name, map[string]int{"networks": 1, "volumes": 1})
		if volume := volumeOf(t, name, "default/data-durable-0"); volume == nil || volume.InstanceID != "" {
			t.Errorf("the volume of a Shoot without instances is %+v", volume)
		}
		patchShoot(t, name, `{"spec":{"hibernation":{"enabled":false}}}`)
		renew()
		started(t)
	})
	step(t, "the volumes of a Shoot are deleted with it", func(t *testing.T) {
		deleteShoot(t, name)
		cloudHas(t, name, map[string]int{})
	})
}

// checkDataVolumes: both data volumes of a machine are mounted, and the kubelet uses its own.
func checkDataVolumes(t *testing.T, node string) {
	t.Helper()
	mounts := hortus(t, "cloud", "instances", "exec", node, "--", "cat", "/proc/mounts")
	for _, path := range []string{"/var/lib/kubelet", "/mnt/data/scratch"} {
		if !strings.Contains(mounts, " "+path+" ") {
			t.Errorf("%s has no mount at %s:\n%s", node, path, mounts)
		}
	}
	if pods := hortus(t, "cloud", "instances", "exec", node, "--", "ls", "/var/lib/kubelet/pods"); pods == "" {
		t.Error("the kubelet has no pods on its volume")
	}
}

// volumeOf returns the cloud's volume for a claim of a Shoot, or nil.
func volumeOf(t *testing.T, shoot, claim string) *cloud.Volume {
	t.Helper()
	var list struct {
		Items []cloud.Volume `json:"items"`
	}
	out := hortus(t, "cloud", "volumes", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("no list of volumes: %v\n%s", err, out)
	}
	i := slices.IndexFunc(list.Items, func(v cloud.Volume) bool {
		return v.Tags["cluster.hortus.dev/name"] == "shoot--dev--"+shoot && v.Tags["kubernetes.io/claim"] == claim
	})
	if i < 0 {
		return nil
	}
	return &list.Items[i]
}
