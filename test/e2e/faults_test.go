//go:build landscape

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// parts are identified by words of their command lines. Killing one must only cause a delay.
var parts = []string{
	"hortus gardenlet", "hortus scheduler", "hortus controller-manager", "hortus provider-local",
	"control-plane resource-manager",
	"hortus apiserver ", "etcd --name=hortus-etcd", "hortus gateway", "hortus cloud serve",
	"kube-controller-manager", "kube-apiserver --advertise-address=10.1.0.10",
}

// shootParts run only while there are Shoots.
var shootParts = []string{
	"control-plane machine-controller-manager ", "control-plane machine-controller ",
	"control-plane cloud-controller-manager", "etcd --name=etcd-main-0", "tunnel server", "tunnel client",
	"gardener-node-agent node-agent",
}

// killAll kills all parts in turn. Those of Shoots that come or go may not run; that the Shoots are ready, or gone,
// shows that the others have been restarted.
func killAll(t *testing.T) {
	t.Helper()
	killInTurn(t, parts)
	for _, part := range shootParts {
		kill(t, part, processesOf(t, part))
	}
}

// killInTurn kills every process of each part, and continues when the part has a new process.
func killInTurn(t *testing.T, parts []string) {
	t.Helper()
	for _, part := range parts {
		start := time.Now()
		var before []int
		eventually(t, part+" runs", func() error { // It may be about to restart, because another part was killed.
			if before = processesOf(t, part); len(before) == 0 {
				return fmt.Errorf("no process")
			}
			return nil
		})
		kill(t, part, before)
		eventually(t, part+" runs again", func() error {
			for _, pid := range processesOf(t, part) {
				if !slices.Contains(before, pid) {
					return nil
				}
			}
			return fmt.Errorf("no new process")
		})
		t.Logf("it runs again %s after the previous one", time.Since(start).Round(100*time.Millisecond))
	}
}

// kill kills the processes of a part with SIGKILL.
func kill(t *testing.T, part string, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Errorf("kill %s: %v", part, err)
		}
	}
	t.Logf("killed %s (%d processes)", part, len(pids))
}

func processesOf(t *testing.T, part string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // Ended meanwhile.
		}
		line := strings.ReplaceAll(string(data), "\x00", " ")
		program, _, _ := strings.Cut(line, " ")
		if !strings.Contains(filepath.Base(program)+strings.TrimPrefix(line, program), part) ||
			ofOtherTest(filepath.Dir(file)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// codesOf are the codes of a Shoot's last errors.
func codesOf(o *unstructured.Unstructured) []string {
	if o == nil {
		return nil
	}
	var codes []string
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "lastErrors")
	for _, item := range list {
		if entry, isMap := item.(map[string]any); isMap {
			some, _, _ := unstructured.NestedStringSlice(entry, "codes")
			codes = append(codes, some...)
		}
	}
	return codes
}

// checkQuota creates a Shoot in an account whose quota allows no machine: the status shows the reason, and the Shoot
// recovers when the quota is raised.
func checkQuota(t *testing.T) {
	hortus(t, "cloud", "quotas", "set", "dev", "--networks", "1", "--instances", "1", "--cpu", "1")
	defer hortus(t, "cloud", "quotas", "set", "dev", "--networks", "0", "--instances", "0", "--cpu", "0")
	manifest := strings.Replace(example(t, "shoot.yaml"), "name: demo", "name: poor", 1)
	if out, err := applyText(t, kubeconfigOf("garden"), manifest); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	awaitShoot(t, "poor", "a last error about the quota", func(o *unstructured.Unstructured) bool {
		return slices.Contains(codesOf(o), "ERR_INFRA_QUOTA_EXCEEDED")
	})
	hortus(t, "cloud", "quotas", "set", "dev", "--networks", "0", "--instances", "0", "--cpu", "0")
	awaitSucceeded(t, "poor")
	deleteShoot(t, "poor")
}

// TestEveryPartMayBeKilled kills every part of the landscape, one after the other, while Shoots come and go: nothing is
// lost, and nothing is left.
func TestEveryPartMayBeKilled(t *testing.T) {
	story(t, everything)
	files := map[string]string{"two": "shoot-two-pools.yaml", "api-only": "shoot-workerless.yaml", "demo": "shoot.yaml"}
	garden := kubeconfigOf("garden")
	for _, file := range files {
		eventually(t, "the garden takes "+file, func() error {
			out, err := kubectlE(t, garden, "apply", "-f", "examples/"+file)
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	killAll(t)
	start := time.Now()
	for name := range files {
		awaitSucceeded(t, name)
	}
	t.Logf("all are ready %s after the last kill", time.Since(start).Round(100*time.Millisecond))
	killInTurn(t, shootParts)
	for name := range files {
		eventually(t, "the garden accepts the deletion of "+name, func() error {
			out, err := kubectlE(t, garden, "-n", projectNS, "annotate", "--overwrite", "shoot", name,
				"confirmation.gardener.cloud/deletion=true")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			out, err = kubectlE(t, garden, "-n", projectNS, "delete", "shoot", name, "--wait=false")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	killAll(t)
	start = time.Now()
	for name := range files {
		awaitShoot(t, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
	}
	t.Logf("all are gone %s after the last kill", time.Since(start).Round(100*time.Millisecond))
	nothingLeft(t)
}
