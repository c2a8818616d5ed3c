//go:build landscape

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// moveGap bounds the time in which no write is acknowledged during a move. The goal is 10 s, which `make bench`
// measures; the rest is for a busy machine: at a load of 50 three members took 85 s.
const moveGap = 3 * time.Minute

// TestSeedIsDrained moves all control planes of a seed at once: one without nodes, one with a node, and one that is
// hibernated. Clients write to the two that are awake; no acknowledged write may be lost, and the nodes stay.
// Afterwards one moves back. Concurrent stories have their control planes on the other seed.
func TestSeedIsDrained(t *testing.T) {
	story(t, bothSeeds)
	const (
		source, destination = "local-2", "local-1"
		bare, noded, sleepy = "bare", "noded", "sleepy"
		remembered          = "before-sleep"
	)
	names := []string{bare, noded, sleepy}
	for name, file := range map[string]string{bare: "shoot-workerless.yaml", noded: "shoot.yaml", sleepy: "shoot.yaml"} {
		applyShootOn(t, file, name, source)
	}
	for _, name := range names {
		awaitSucceeded(t, name)
		if on := seedOf(t, name); on != source {
			t.Fatalf("Shoot %s is on %s, want %s", name, on, source)
		}
	}
	kubeconfigs := map[string]string{}
	for _, name := range names {
		kubeconfigs[name] = shootKubeconfig(t, name)
	}
	serverOf := func(name string) string {
		return kubectl(t, kubeconfigs[name], "config", "view", "--minify", "-o",
			"jsonpath={.clusters[0].cluster.tls-server-name}")
	}
	kubectl(t, kubeconfigs[sleepy], "-n", "default", "create", "configmap", remembered, "--from-literal=is=there")
	awaitShoot(t, sleepy, "conditions and constraints to be True", allWell) // Hibernation requires a check by care.
	patchShoot(t, sleepy, `{"spec":{"hibernation":{"enabled":true}}}`)
	token := kubectl(t, kubeconfigs[noded], "-n", "default", "create", "token", "default", "--duration=1h")
	nodes, pods := nodeUIDs(t, kubeconfigs[noded]), podStarts(t, kubeconfigs[noded])
	writers := map[string]*writer{}
	for _, name := range []string{bare, noded} {
		writers[name] = startWriter(t, kubeconfigs[name])
	}

	for _, w := range writers {
		w.longestGap()
	}
	start := time.Now()
	t.Logf("\n%s", hortus(t, "drain", "seed", source, "--to", destination, "--parallel", "3", "--yes"))
	took := time.Since(start)
	for name, w := range writers {
		gap, failed := w.longestGap()
		t.Logf("%s: longest time without an acknowledged write: %s, failed requests %v", name, gap.Round(time.Millisecond),
			failed)
	}
	t.Logf("drained in %s", took.Round(100*time.Millisecond))
	for _, name := range names {
		if on := seedOf(t, name); on != destination {
			t.Errorf("Shoot %s is on %s", name, on)
		}
		awaitLeft(t, name, source)
	}
	for name := range writers {
		readdress(t, kubeconfigs[name], serverOf(name))
	}
	if got := nodeUIDs(t, kubeconfigs[noded]); got != nodes {
		t.Errorf("nodes were %s and are %s", nodes, got)
	}

	// One of them moves back, while its client continues to write.
	writers[noded].during(t, "the move back", moveGap, func() {
		hortus(t, "move", "shoot", noded, "-n", projectNS, "--to", source)
	})
	readdress(t, kubeconfigs[noded], serverOf(noded))
	kubectl(t, kubeconfigs[noded], "--token", token, "get", "--raw", "/version")
	if got := nodeUIDs(t, kubeconfigs[noded]); got != nodes {
		t.Errorf("after the move back nodes were %s and are %s", nodes, got)
	}
	after := podStarts(t, kubeconfigs[noded])
	for pod, before := range pods {
		if after[pod] != before {
			t.Errorf("pod %s was started at %s with %s restarts, now at %s with %s", pod, before[0], before[1], after[pod][0],
				after[pod][1])
		}
	}
	for name, w := range writers {
		t.Logf("%s: %d acknowledged writes", name, w.check(t, kubeconfigs[name]))
	}

	patchShoot(t, sleepy, `{"spec":{"hibernation":{"enabled":false}}}`)
	kubeconfigs[sleepy] = shootKubeconfig(t, sleepy)
	if is := kubectl(t, kubeconfigs[sleepy], "-n", "default", "get", "configmap", remembered, "-o",
		"jsonpath={.data.is}"); is != "there" {
		t.Errorf("the ConfigMap from before the hibernation has %q", is)
	}
}

// applyShootOn creates a Shoot from an example under another name on a seed, with further lines of its spec. It is
// deleted at the end of the story, if it still exists.
func applyShootOn(t *testing.T, file, name, seed string, spec ...string) {
	t.Helper()
	applyShootTextOn(t, example(t, file), name, seed, spec...)
}

// applyShootTextOn is [applyShootOn] for the text of an example.
func applyShootTextOn(t *testing.T, text, name, seed string, spec ...string) {
	t.Helper()
	if out, err := applyText(t, kubeconfigOf("garden"), boundShoot(text, name, seed, spec...)); err != nil {
		t.Fatalf("make Shoot %s: %v\n%s", name, err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			keepState(t)
		}
		there := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "--ignore-not-found", "-o", "name")
		if there != "" && (os.Getenv(keepLandscape) == "" || !t.Failed()) {
			deleteShoot(t, name)
		}
	})
}

// boundShoot is the manifest of a Shoot under another name, bound to a seed, with further lines of its specification.
// Unless one of them is about maintenance, it is hours away: in its time window, pods of the control plane are
// restarted.
func boundShoot(text, name, seed string, spec ...string) string {
	const maintenance = "maintenance:"
	if !strings.Contains(text, maintenance) &&
		!slices.ContainsFunc(spec, func(line string) bool { return strings.HasPrefix(line, maintenance) }) {
		spec = append(slices.Clone(spec), fmt.Sprintf("%s {%s}", maintenance, laterWindow(time.Now())))
	}
	var lines []string
	renamed, bound := false, false
	for line := range strings.Lines(text) {
		if !renamed && strings.HasPrefix(line, "  name: ") {
			line, renamed = "  name: "+name+"\n", true
		}
		if !bound && strings.HasPrefix(line, "spec:") {
			line, bound = line+"  seedName: "+seed+"\n", true
			for _, more := range spec {
				line += "  " + more + "\n"
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}
