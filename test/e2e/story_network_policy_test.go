//go:build landscape

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNetworkPolicySpecs runs Kubernetes' own specs of network policies on a Shoot of two nodes.
func TestNetworkPolicySpecs(t *testing.T) {
	story(t)
	const name = "policies"
	hortus(t, "components", "build", "e2e-1.36")
	hortus(t, "images", "build", "agnhost")
	applyShootOn(t, "shoot-two-pools.yaml", name, "local-1")
	awaitSucceeded(t, name)
	// Those of SCTP need a module of the kernel that not every machine has.
	runSpecs(t, shootKubeconfig(t, name), "Netpol", "SCTP")
}

// runSpecs runs those of Kubernetes' end-to-end tests that the first regular expression matches and the second does not. The kubeconfig is changed: the tests
// drop the name that the server's certificate is checked for, so the server is called by that name.
func runSpecs(t *testing.T, kubeconfig, focus, skip string) {
	t.Helper()
	view := func(field string) string {
		return kubectl(t, kubeconfig, "config", "view", "--minify", "-o", "jsonpath={."+field+"}")
	}
	server, err := url.Parse(view("clusters[0].cluster.server"))
	if err != nil {
		t.Fatal(err)
	}
	host := view("clusters[0].cluster.tls-server-name")
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", server.Hostname(), host), 0o644); err != nil {
		t.Fatal(err)
	}
	named := "https://" + strings.Replace(server.Host, server.Hostname(), host, 1)
	kubectl(t, kubeconfig, "config", "set-cluster", view("clusters[0].name"), "--server="+named)

	found, err := filepath.Glob(filepath.Join(repository, ".build/bin/e2e/v*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("folders with the tests: %v, %v", found, err)
	}
	programs, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	defer cancel()
	// A mount namespace keeps the file with the server's name from the rest of the machine.
	const inside = `mount --bind "$1" /etc/hosts && shift && exec "$@"`
	command := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", inside, "sh", hosts,
		filepath.Join(programs, "ginkgo"), "--procs=2", "--no-color", "--succinct", "--fail-on-empty", "--focus="+focus, "--skip="+skip,
		filepath.Join(programs, "e2e.test"),
		"--", "--kubeconfig="+kubeconfig, "--provider=local", "--num-nodes=2")
	command.Dir = t.TempDir()
	out, err := command.CombinedOutput()
	summary := string(out[max(0, len(out)-1500):])
	if err != nil {
		kept, createErr := os.CreateTemp("", "hortus-specs-*.log")
		if createErr != nil {
			t.Fatal(createErr)
		}
		_, writeErr := kept.Write(out)
		t.Fatalf("the specs failed: %v, see %s (%v):\n%s", err, kept.Name(), errors.Join(writeErr, kept.Close()), summary)
	}
	t.Log(summary)
}
