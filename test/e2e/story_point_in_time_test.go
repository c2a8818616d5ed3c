//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestPointInTimeRestore restores a Shoot with a node to a point before a deletion, as its owner would.
func TestPointInTimeRestore(t *testing.T) {
	story(t, firstSeed)
	const name = "rewind"
	newShoot(t, "shoot.yaml", name)
	kubeconfig := shootKubeconfig(t, name)
	nodes := kubectl(t, kubeconfig, "get", "nodes", "-o", "jsonpath={.items[*].metadata.uid}")
	kubectl(t, kubeconfig, "create", "configmap", "precious", "--from-literal=a=b")
	uid := kubectl(t, kubeconfig, "get", "configmap", "precious", "-o", "jsonpath={.metadata.uid}")

	var taken struct {
		LastRevision int64
		Time         time.Time
	}
	if err := json.Unmarshal([]byte(hortus(t, "backup", "now", name, "-n", projectNS, "-o", "json")), &taken); err != nil {
		t.Fatal(err)
	}
	if out := hortus(t, "backup", "list", name, "-n", projectNS); !strings.Contains(out, fmt.Sprint(taken.LastRevision)) {
		t.Errorf("the list does not have revision %d:\n%s", taken.LastRevision, out)
	}
	version := resourceVersion(t, kubeconfig)
	kubectl(t, kubeconfig, "delete", "configmap", "precious")
	kubectl(t, kubeconfig, "create", "configmap", "mistake")

	start := time.Now()
	out := hortus(t, "backup", "restore", name, "-n", projectNS, "--revision", fmt.Sprint(taken.LastRevision), "--yes")
	t.Logf("restored in %s:\n%s", time.Since(start).Round(100*time.Millisecond), out)
	if !strings.Contains(out, "are undone") || !strings.Contains(out, "has been restored") {
		t.Errorf("restore says:\n%s", out)
	}
	if got := kubectl(t, kubeconfig, "get", "configmap", "precious", "-o", "jsonpath={.metadata.uid}"); got != uid {
		t.Errorf("the deleted object has come back with UID %s, want %s", got, uid)
	}
	if out, err := kubectlE(t, kubeconfig, "get", "configmap", "mistake"); err == nil ||
		!strings.Contains(out, "NotFound") {
		t.Errorf("the object that was created since is still there: %v\n%s", err, out)
	}
	if now := resourceVersion(t, kubeconfig); now <= version {
		t.Errorf("resource versions have gone back from %d to %d", version, now)
	}

	// Credentials are the present ones, nodes are the same, and everything works.
	kubectl(t, shootKubeconfig(t, name), "get", "namespaces")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "nodes", "--all", withPatience)
	if now := kubectl(t, kubeconfig, "get", "nodes", "-o", "jsonpath={.items[*].metadata.uid}"); now != nodes {
		t.Errorf("nodes were %s and are %s", nodes, now)
	}
	kubectl(t, kubeconfig, "run", "after", "--image=hortus.dev/echo:1.0.0", "--restart=Never")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/after", withPatience)
	for revision, reason := range map[string]string{
		"999999999": "no backup reaches",
		"1":         "the Shoot was not completely created", // The backups include the initial, empty etcd.
	} {
		out, err := run(t, repository+"/.build/hortus", "backup", "restore", name, "-n", projectNS, "--revision", revision,
			"--yes")
		if err == nil || !strings.Contains(out, reason) {
			t.Errorf("revision %s gives %v:\n%s\nwant %q", revision, err, out, reason)
		}
	}
}
