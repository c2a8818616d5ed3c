//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// randomRounds is the number of times that a Shoot is changed at random.
const randomRounds = 6

// TestRandomEditsRollAsPredicted changes a Shoot of three pools again and again, each time in several ways. Before each
// change, 'hortus diff' predicts whose machines it replaces. One of the changes comes with a maintenance, of which
// 'hortus plan' predicts it. The documents, the predictions and the machines that were replaced must agree.
func TestRandomEditsRollAsPredicted(t *testing.T) {
	story(t, firstSeed)
	const name = "random"
	seed := numberIn(t, envSeed, rand.Uint64N(1_000_000))
	t.Logf("the seed is %d; %s=%[1]d repeats the changes", seed, envSeed)
	r := rand.New(rand.NewPCG(seed, 0))
	maintained := r.IntN(randomRounds)
	applyShoot(t, "shoot-random.yaml")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	pools := pooled{name, shootKubeconfig(t, name)}

	for round := range randomRounds {
		step(t, fmt.Sprintf("round %d", round), func(t *testing.T) {
			before, machines := pools.shoot(t), pools.machines(t)
			var planned []string
			if round == maintained {
				planned = pools.maintain(t)
			}
			current := pools.shoot(t)
			e := edit(r, current)
			t.Logf("changes: %s", strings.Join(e.changes, "; "))
			if diff := cmp.Diff(e.triggered, pools.predicted(t, e.patch(t))); diff != "" {
				t.Errorf("pools with new machines (-documents +hortus diff):\n%s", diff)
			}
			change := roll{patch: e.patch(t), pools: append(e.rolled(), planned...)}
			slices.Sort(change.pools)
			change.pools = slices.Compact(change.pools)
			if e.requested != "" {
				change.asks, change.requested = "rollout-workers="+e.requested, []string{e.requested}
				change.done = func(o *unstructured.Unstructured) bool {
					_, pending, _ := unstructured.NestedMap(o.Object, "status", "manualWorkerPoolRollout")
					return !pending
				}
			}
			t.Logf("pools to be rolled: %q, of these by the maintenance: %q", change.pools, planned)
			pools.change(t, change)
			pools.compare(t, change, before, machines)
		})
	}
}

// maintain requests a maintenance, and waits until it has changed the Shoot. It returns the pools whose machines the
// maintenance replaces according to the plan: those with an older machine image.
func (p pooled) maintain(t *testing.T) []string {
	t.Helper()
	planned := plannedEffects(t, p.name)["roll"]
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "shoot", p.name, "gardener.cloud/operation=maintain")
	awaitShoot(t, p.name, "the maintenance", func(o *unstructured.Unstructured) bool {
		_, asked := o.GetAnnotations()["gardener.cloud/operation"]
		state, _, _ := unstructured.NestedString(o.Object, "status", "lastMaintenance", "state")
		return !asked && state == "Succeeded"
	})
	return planned
}

// predicted returns the pools that 'hortus diff' says will be rolled by a change.
func (p pooled) predicted(t *testing.T, patch string) (rolled []string) {
	t.Helper()
	client := dynamicClient(t, kubeconfigOf("garden")).Resource(shoots).Namespace(projectNS)
	edited, err := client.Patch(t.Context(), p.name, types.JSONPatchType, []byte("["+patch+"]"),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := edited.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "shoot.json")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	var diffs []struct {
		Pools []struct{ Name, Effect, Hash string }
	}
	out := hortus(t, "diff", "-f", file, "-o", "json")
	if err := json.Unmarshal([]byte(out), &diffs); err != nil || len(diffs) != 1 {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, pool := range diffs[0].Pools {
		if pool.Effect == "rolled" && pool.Hash != "classic" {
			rolled = append(rolled, pool.Name)
		}
	}
	slices.Sort(rolled)
	return rolled
}
