//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// gardenRunbook is the runbook for a lost garden; this story runs its commands.
const gardenRunbook = "docs/runbooks/the-garden-is-gone.md"

// TestLostGardenIsRestored rotates the key of the garden and deletes the data of both its etcds, one after the other.
// Shoots keep working meanwhile. When the garden is back, every Shoot exists and can be changed, and encrypted objects
// can be read.
func TestLostGardenIsRestored(t *testing.T) {
	story(t, everything)
	const name = "evergreen"
	garden := kubeconfigOf("garden")
	newShoot(t, "shoot-workerless.yaml", name)
	kubeconfig := shootKubeconfig(t, name)
	uid := shootUID(t, name)
	w := startWriter(t, kubeconfig)
	checkEncrypted := checkGardenKeyRotates(t)
	awaitGardenBackup(t, version(t, name))

	start := time.Now()
	lost := kubectl(t, garden, "-n", "garden", "get", "pod", "hortus-etcd-0", "-o", "jsonpath={.metadata.uid}")
	typeRunbook(t, gardenRunbook, "Start again from the newest backup")
	eventually(t, "a new etcd, and a garden that knows the Shoot", func() error {
		out, err := kubectlE(t, garden, "-n", "garden", "get", "pod", "hortus-etcd-0", "-o",
			"jsonpath={.metadata.uid} {.status.containerStatuses[0].ready}")
		if err != nil || strings.HasPrefix(out, lost) || !strings.HasSuffix(out, " true") {
			return fmt.Errorf("%s (%v)", out, err)
		}
		return gardenKnows(t, name, uid)
	})
	t.Logf("the garden answers %s after its volume was deleted", time.Since(start).Round(100*time.Millisecond))
	if out := kubectl(t, garden, "-n", "garden", "logs", "hortus-etcd-0"); !strings.Contains(out, "Restored revision") {
		t.Errorf("etcd was not restored from its backups:\n%s", out)
	}
	checkUsable(t, name, 201)

	awaitKubernetesBackup(t, resourceVersion(t, garden))
	start = time.Now()
	secret := kubectl(t, garden, "-n", projectNS, "get", "secret", "local-cloud", "-o", "jsonpath={.metadata.uid}")
	typeRunbook(t, gardenRunbook, "Start the garden's kube-apiserver again from the newest backup")
	eventually(t, "a garden with its Secrets", func() error {
		out, err := kubectlE(t, garden, "-n", projectNS, "get", "secret", "local-cloud", "-o", "jsonpath={.metadata.uid}")
		if err != nil || out != secret {
			return fmt.Errorf("%w: %s", err, out)
		}
		return gardenKnows(t, name, uid)
	})
	t.Logf("the garden's kube-apiserver answers %s after its data was deleted",
		time.Since(start).Round(100*time.Millisecond))
	checkUsable(t, name, 202)
	checkEncrypted()

	gap, failed := w.longestGap()
	t.Logf("longest time without an acknowledged write to the Shoot: %s, failed requests %v", gap.Round(time.Millisecond),
		failed)
	t.Logf("%d acknowledged writes", w.check(t, kubeconfig))
}

// checkUsable changes the Shoot, gets a new kubeconfig and checks that no control plane is unknown to the garden.
func checkUsable(t *testing.T, name string, inflight int) {
	t.Helper()
	// The API server has etcd again before its readiness has reached all components.
	eventually(t, "a change is accepted", func() error {
		out, err := kubectlE(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=merge",
			"-p", fmt.Sprintf(`{"spec":{"kubernetes":{"kubeAPIServer":{"requests":{"maxMutatingInflight":%d}}}}}`, inflight))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	awaitSucceeded(t, name)
	kubectl(t, shootKubeconfig(t, name), "get", "namespaces")
	eventually(t, "Seeds that know all their control planes", func() error {
		out, err := kubectlE(t, kubeconfigOf("garden"), "get", "seeds", "-o",
			`jsonpath={.items[*].status.conditions[?(@.type=="ControlPlanesKnown")].status}`)
		if err != nil || strings.TrimSpace(out) != "True True" {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	awaitShoot(t, name, "a Shoot without errors", func(o *unstructured.Unstructured) bool { return succeeded(o) })
}

func shootUID(t *testing.T, name string) string {
	t.Helper()
	return kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o", "jsonpath={.metadata.uid}")
}

func gardenKnows(t *testing.T, name, uid string) error {
	out, err := kubectlE(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o",
		"jsonpath={.metadata.uid}")
	if err != nil || out != uid {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func version(t *testing.T, name string) int {
	t.Helper()
	out := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o",
		"jsonpath={.metadata.resourceVersion}")
	version, err := strconv.Atoi(out)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// awaitGardenBackup waits until the backups of the garden's API server reach a revision.
func awaitGardenBackup(t *testing.T, revision int) {
	t.Helper()
	awaitSaved(t, revision, "garden", "hortus-etcd-0", "/etc/etcd/tls/")
}

// awaitKubernetesBackup waits until the backups of the garden's kube-apiserver reach a revision.
func awaitKubernetesBackup(t *testing.T, revision int) {
	t.Helper()
	awaitSaved(t, revision, "kube-system", "etcd-garden", "/etc/kubernetes/pki/")
}

func awaitSaved(t *testing.T, revision int, namespace, pod, certificates string) {
	t.Helper()
	command := []string{"-n", namespace, "exec", pod, "--", "hortus", "etcd-backup", "status", "-o", "json",
		"--ca-file=" + certificates + "ca.crt", "--cert-file=" + certificates + "client.crt", "--key-file=" + certificates +
			"client.key"}
	eventually(t, "backups up to revision "+strconv.Itoa(revision), func() error {
		out, err := kubectlE(t, kubeconfigOf("garden"), command...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		var status struct{ SavedRevision int }
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if status.SavedRevision < revision {
			return fmt.Errorf("they reach %d", status.SavedRevision)
		}
		return nil
	})
}

// typeRunbook runs the commands of a section of a runbook, as an operator would.
func typeRunbook(t *testing.T, runbook, heading string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, runbook))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "\n```\n")
	if !found || len(blocks) < 2 {
		t.Fatalf("%s has no commands under %q", runbook, heading)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range blocks {
		if i%2 == 0 { // Text between the blocks.
			continue
		}
		for command := range strings.Lines(block) {
			shell := exec.CommandContext(t.Context(), "sh", "-c", command)
			shell.Dir = root
			shell.Env = append(os.Environ(), "KUBECONFIG="+kubeconfigOf("garden"), fmt.Sprintf("PATH=%s:%s:%s",
				filepath.Join(root, ".build"), filepath.Dir(kubectlPath(t)), os.Getenv("PATH")))
			if out, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", strings.TrimSpace(command), err, out)
			}
		}
	}
}
