//go:build landscape

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// deadSeedRunbook is the runbook for a lost seed; this story runs its commands.
const deadSeedRunbook = "docs/runbooks/a-seed-is-gone.md"

// takeOverBound bounds the time from the operator's declaration until the APIs serve. The goal is the fence time of the
// landscape's seeds, two minutes, plus one minute; measured are 2 min 30 to 45 s. The rest is for a busy machine.
const takeOverBound = 6 * time.Minute

// TestShootsOfADeadSeedAreTakenOver removes the hardware of a seed while clients write to Shoots on it, and has the
// other seed take over. The contents of the backups are restored, and nodes and pods stay the same. When the first seed
// comes back, it removes only its own remains. A Shoot that its owner deletes meanwhile is deleted by the seed that has
// taken over.
func TestShootsOfADeadSeedAreTakenOver(t *testing.T) {
	story(t, bothSeeds)
	const source, destination = "local-2", "local-1"
	names := map[string]string{"orphan": "shoot.yaml", "waif": "shoot-workerless.yaml"}
	for name, file := range names {
		applyShootOn(t, file, name, source)
	}
	const doomed = "doomed"
	applyShootOn(t, "shoot-workerless.yaml", doomed, source)
	awaitSucceeded(t, doomed)
	kubeconfigs, writers, saved := map[string]string{}, map[string]*writer{}, map[string]int{}
	for name := range names {
		awaitSucceeded(t, name)
		kubeconfigs[name] = shootKubeconfig(t, name)
		writers[name] = startWriter(t, kubeconfigs[name])
	}
	nodes, pods := nodeUIDs(t, kubeconfigs["orphan"]), podStarts(t, kubeconfigs["orphan"])
	server := kubectl(t, kubeconfigs["orphan"], "config", "view", "--minify", "-o",
		"jsonpath={.clusters[0].cluster.tls-server-name}")
	for name, w := range writers {
		saved[name] = w.acknowledged()
		hortus(t, "backup", "now", name, "-n", projectNS)
		w.longestGap()
	}

	hortus(t, "cloud", "faults", "set", "lost", "Instance", "--name", "dead-seed", "--target", "seed-2")
	t.Cleanup(func() { _, _ = run(t, repository+"/.build/hortus", "cloud", "faults", "delete", "dead-seed") })
	eventually(t, "a seed without a sign of life", func() error {
		out, err := kubectlE(t, kubeconfigOf("garden"), "get", "seed", source, "-o",
			`jsonpath={.status.conditions[?(@.type=="GardenletReady")].status}`)
		if err != nil || out != "Unknown" {
			return fmt.Errorf("GardenletReady is %s (%v)", out, err)
		}
		return nil
	})
	garden := kubeconfigOf("garden")
	kubectl(t, garden, "-n", projectNS, "annotate", "shoot", doomed, "confirmation.gardener.cloud/deletion=true")
	kubectl(t, garden, "-n", projectNS, "delete", "shoot", doomed, "--wait=false")
	start := time.Now()
	typeRunbook(t, deadSeedRunbook, "Take over")
	took := time.Since(start)
	for name, w := range writers {
		gap, _ := w.longestGap()
		t.Logf("%s: longest time without an acknowledged write: %s", name, gap.Round(time.Millisecond))
		message := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o",
			"jsonpath={.status.lastOperation.description}")
		if !strings.Contains(message, "stored at") {
			t.Errorf("%s does not report the data loss: %s", name, message)
		}
		eventually(t, "an API of "+name+" that serves", func() error {
			if w.acknowledged() <= saved[name] || w.silent() > 5*time.Second {
				return fmt.Errorf("the last write was acknowledged %s ago", w.silent())
			}
			return nil
		})
	}
	t.Logf("taken over %s after the operator's declaration", took.Round(100*time.Millisecond))
	if took > takeOverBound {
		t.Errorf("that should take less than %s", takeOverBound)
	}

	readdress(t, kubeconfigs["orphan"], server)
	awaitShoot(t, doomed, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
	hortus(t, "cloud", "faults", "delete", "dead-seed")
	for _, name := range append(slices.Collect(maps.Keys(names)), doomed) {
		awaitLeft(t, name, source)
	}
	eventually(t, "an empty seed", func() error {
		out, err := kubectlE(t, adminOf(source), "get",
			"clusters.extensions.gardener.cloud,backupentries.extensions.gardener.cloud", "-o", "name")
		if err != nil || out != "" {
			return fmt.Errorf("it has %s (%v)", out, err)
		}
		return nil
	})
	if got := nodeUIDs(t, kubeconfigs["orphan"]); got != nodes {
		t.Errorf("nodes were %s and are %s", nodes, got)
	}
	after := podStarts(t, kubeconfigs["orphan"])
	for pod, before := range pods {
		if after[pod] != before {
			t.Errorf("pod %s was started at %s with %s restarts, now at %s with %s", pod, before[0], before[1], after[pod][0],
				after[pod][1])
		}
	}
	for name, w := range writers {
		kubeconfig := shootKubeconfig(t, name)
		w.end()
		w.checkFirst(t, kubeconfig, saved[name])
	}
	for _, seed := range []string{source, destination} {
		eventually(t, "Seed "+seed+" to be Ready", func() error {
			out, err := kubectlE(t, kubeconfigOf("garden"), "get", "seed", seed, "-o", `jsonpath={.status.conditions[*].status}`)
			if err != nil || strings.Contains(out, "Unknown") || strings.Contains(out, "False") {
				return fmt.Errorf("%s (%v)", out, err)
			}
			return nil
		})
	}
}
