//go:build landscape

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// kept has the stories whose state has been kept.
var kept sync.Map

// keepState writes the landscape status when a story fails into a folder of the story's name, before its Shoots are
// deleted: objects with their conditions and last operations, events, and logs. Secrets are left out.
func keepState(t *testing.T) {
	t.Helper()
	story, _, _ := strings.Cut(t.Name(), "/")
	if _, done := kept.LoadOrStore(story, true); done {
		return
	}
	folder := filepath.Join(repository, ".build", "stories", story)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Log(err)
		return
	}
	keep := func(file, program string, args ...string) {
		out, err := run(t, program, args...)
		if err != nil {
			out += "\n" + err.Error() + "\n"
		}
		if err := os.WriteFile(filepath.Join(folder, file), []byte(out), 0o600); err != nil {
			t.Log(err)
		}
	}
	kubectl := kubectlPath(t)
	ask := func(cluster, file string, args ...string) {
		keep(cluster+"-"+file, kubectl,
			append([]string{"--request-timeout=30s", "--kubeconfig", kubeconfigOf(cluster)}, args...)...)
	}

	program := filepath.Join(repository, ".build", "hortus")
	keep("status.txt", program, "status")
	keep("instances.txt", program, "cloud", "instances", "list")
	for _, cluster := range []string{"garden", "seed-2"} {
		ask(cluster, "pods.txt", "get", "pods", "--all-namespaces", "-o", "wide")
		ask(cluster, "events.txt", "get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")
		ask(cluster, "extensions.yaml", "get", "--all-namespaces", "-o", "yaml",
			"infrastructures,workers,controlplanes,extensions,operatingsystemconfigs,backupentries,managedresources,machines")
		ask(cluster, "garden.log", "-n", "garden", "logs", "--prefix", "--tail=5000", "--max-log-requests=20", "-l",
			"app in (gardenlet, hortus-apiserver, hortus-controller-manager, hortus-scheduler, hortus-etcd)")
		ask(cluster, "kube-system.log", "-n", "kube-system", "logs", "--prefix", "--tail=2000", "-l",
			"component in (etcd, kube-apiserver)")
		keepShoots(t, cluster, keep, ask)
	}
	ask("garden", "shoots.yaml", "get", "shoots,seeds,projects,managedseeds,controllerinstallations", "--all-namespaces",
		"-o", "yaml")
	t.Logf("the state of the landscape is in %s", filepath.Join(".build", "stories", story))
}

// keepShoots keeps the logs of the control planes on a Seed, and the nodes, pods and events of the Shoots in the
// project of the stories.
func keepShoots(
	t *testing.T, seed string, keep func(file, program string, args ...string),
	ask func(cluster, file string, args ...string),
) {
	t.Helper()
	out, err := kubectlE(t, kubeconfigOf(seed), "--request-timeout=30s", "get", "namespaces", "-o",
		"jsonpath={.items[*].metadata.name}")
	if err != nil {
		t.Log(err)
		return
	}
	for _, namespace := range strings.Fields(out) {
		if !strings.HasPrefix(namespace, "shoot--") {
			continue
		}
		ask(seed, namespace+".log", "-n", namespace, "logs", "--prefix", "--tail=2000", "--max-log-requests=40",
			"--all-containers", "-l", "app")
		name, ours := strings.CutPrefix(namespace, "shoot--dev--")
		if !ours {
			continue
		}
		kubeconfig, err := run(t, filepath.Join(repository, ".build", "hortus"), "kubeconfig", "shoot", name, "-n", projectNS)
		file := filepath.Join(t.TempDir(), name+".kubeconfig")
		if err = errors.Join(err, os.WriteFile(file, []byte(kubeconfig), 0o600)); err != nil {
			t.Log(err)
			continue
		}
		keep(namespace+"-objects.txt", kubectlPath(t), "--kubeconfig", file, "--request-timeout=30s", "get",
			"nodes,pods,events", "--all-namespaces", "-o", "wide")
	}
}
