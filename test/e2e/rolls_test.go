//go:build landscape

package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension/poolhash"
)

// pooled is a Shoot of which every pool has one machine.
type pooled struct{ name, kubeconfig string }

// roll says which machines a change replaces.
type roll struct {
	// patch is a list of operations of a JSON patch, without brackets. The other field has the value of the
	// annotation for operations.
	patch, asks string
	// done says whether the requested change is complete, in addition to the success of the Shoot. Nil: always.
	done func(*unstructured.Unstructured) bool
	// pools are the pools whose machines are replaced according to the documents, sorted.
	pools []string
	// requested are those of them for which the owner requested new machines. That changes no hash.
	requested []string
	// hash returns the hash that decides about the machines of a pool. Nil: the new hash.
	hash func(*corev1beta1.Shoot, *corev1beta1.Worker) (string, error)
}

// apply makes the change, waits until it is rolled out, and compares three lists of pools: those in the documents,
// those that the hashes predict, and those whose machines were replaced.
func (p pooled) apply(t *testing.T, r roll) {
	t.Helper()
	before, machines := p.shoot(t), p.machines(t)
	p.change(t, r)
	p.compare(t, r, before, machines)
}

// change the Shoot, and wait until the change is rolled out.
func (p pooled) change(t *testing.T, r roll) {
	t.Helper()
	patch := r.patch
	if r.asks != "" {
		asks := `{"op":"add","path":"/metadata/annotations/gardener.cloud~1operation","value":"` + r.asks + `"}`
		patch = asks + separated(patch)
	}
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", p.name, "--type=json", "-p", "["+patch+"]")
	awaitShoot(t, p.name, "the change to be rolled out", func(o *unstructured.Unstructured) bool {
		_, asked := o.GetAnnotations()["gardener.cloud/operation"]
		return !asked && succeeded(o) && (r.done == nil || r.done(o))
	})
}

// compare the present machines with those before a change.
func (p pooled) compare(t *testing.T, r roll, before *corev1beta1.Shoot, machines map[string]string) {
	t.Helper()
	hash := r.hash
	if hash == nil {
		hash = newHash
	}
	predicted := append(rehashed(t, hash, before, p.shoot(t)), r.requested...)
	slices.Sort(predicted)
	predicted = slices.Compact(predicted)
	if diff := cmp.Diff(r.pools, predicted); diff != "" {
		t.Errorf("pools that the hashes predict to be rolled (-documents +hashes):\n%s", diff)
	}
	var replaced []string
	for pool, now := range p.machines(t) {
		if now != machines[pool] {
			replaced = append(replaced, pool)
		}
	}
	slices.Sort(replaced)
	if diff := cmp.Diff(r.pools, replaced); diff != "" {
		t.Errorf("pools whose machines were replaced (-documents +machines):\n%s", diff)
	}
}

// rehashed are the pools whose hash a change changes, sorted, without those that are updated in place.
func rehashed(
	t *testing.T, hash func(*corev1beta1.Shoot, *corev1beta1.Worker) (string, error), before, after *corev1beta1.Shoot,
) (pools []string) {
	t.Helper()
	for i := range after.Spec.Provider.Workers {
		pool := &after.Spec.Provider.Workers[i]
		if pool.UpdatesInPlace() {
			continue
		}
		was, err := hash(before, &before.Spec.Provider.Workers[i])
		if err != nil {
			t.Fatal(err)
		}
		is, err := hash(after, pool)
		if err != nil {
			t.Fatal(err)
		}
		if is != was {
			pools = append(pools, pool.Name)
		}
	}
	slices.Sort(pools)
	return pools
}

func newHash(shoot *corev1beta1.Shoot, pool *corev1beta1.Worker) (string, error) {
	return poolhash.KeyV2(poolhash.FromShoot(shoot, pool))
}

func classicHash(shoot *corev1beta1.Shoot, pool *corev1beta1.Worker) (string, error) {
	return poolhash.ClassV1(poolhash.FromShoot(shoot, pool))
}

// shoot reads the present Shoot.
func (p pooled) shoot(t *testing.T) *corev1beta1.Shoot {
	t.Helper()
	out := &corev1beta1.Shoot{}
	text := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", p.name, "-o", "json")
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// machines returns the Node and the instance of each pool.
func (p pooled) machines(t *testing.T) map[string]string {
	t.Helper()
	var instances struct {
		Items []struct{ ID, Name string }
	}
	if err := json.Unmarshal([]byte(hortus(t, "cloud", "instances", "list", "-o", "json")), &instances); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, node := range nodesOf(t, p.kubeconfig, "worker.gardener.cloud/pool") {
		pool := node.Labels["worker.gardener.cloud/pool"]
		if out[pool] != "" {
			t.Fatalf("pool %s has more than one node; the second is %s", pool, node.Name)
		}
		for _, instance := range instances.Items {
			if instance.Name == node.Name {
				out[pool] = string(node.UID) + " " + instance.ID
			}
		}
		if out[pool] == "" {
			t.Fatalf("the cloud has no instance for node %s", node.Name)
		}
	}
	return out
}

// separated puts a comma before operations of a JSON patch, if there are any.
func separated(patch string) string {
	if patch == "" {
		return ""
	}
	return "," + patch
}
