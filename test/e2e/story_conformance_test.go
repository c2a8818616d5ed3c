//go:build landscape

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// specs are those of Kubernetes' end-to-end tests that the first regular expression matches and the second does not. So many
// run side by side.
type specs struct {
	focus, skip string
	side        int
	patience    time.Duration // Twice that of other waits unless stated.
}

// TestConformance runs Kubernetes' conformance tests on a Shoot of two nodes: first those that may run side by side, then the
// others. HORTUS_SPECS, a regular expression, limits them.
func TestConformance(t *testing.T) {
	story(t)
	const name, alone = "conformant", `\[Serial\]|\[Disruptive\]`
	buildSpecs(t)
	applyShootOn(t, "shoot-two-pools.yaml", name, "local-1")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	focus := `\[Conformance\]`
	if limit := os.Getenv("HORTUS_SPECS"); limit != "" {
		focus = "(" + limit + ").*" + focus
	}
	step(t, "those that run side by side", func(t *testing.T) {
		runSpecs(t, shootKubeconfig(t, name), specs{focus: focus, skip: alone, side: 4, patience: 3 * time.Hour})
	})
	step(t, "those that run alone", func(t *testing.T) {
		focus := focus + ".*(" + alone + ")|(" + alone + ").*" + focus
		runSpecs(t, shootKubeconfig(t, name), specs{focus: focus, side: 1, patience: 3 * time.Hour})
	})
}

// buildSpecs makes Kubernetes' end-to-end tests and what their pods run.
func buildSpecs(t *testing.T) {
	t.Helper()
	hortus(t, "components", "build", "e2e-1.36")
	hortus(t, "images", "build", "e2e")
}

// runSpecs runs specs and logs what came of them. The kubeconfig is changed: the tests drop the name that the server's
// certificate is checked for, so the server is called by that name.
func runSpecs(t *testing.T, kubeconfig string, s specs) {
	t.Helper()
	view := func(field string) string {
		return kubectl(t, kubeconfig, "config", "view", "--minify", "-o", "jsonpath={."+field+"}")
	}
	server, err := url.Parse(view("clusters[0].cluster.server"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	hosts, report := filepath.Join(folder, "hosts"), filepath.Join(folder, "report.json")
	host := view("clusters[0].cluster.tls-server-name")
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cmp.Or(s.patience, 2*patience))
	defer cancel()
	// A mount namespace keeps the file with the server's name from the rest of the machine.
	const inside = `mount --bind "$1" /etc/hosts && shift && exec "$@"`
	command := exec.CommandContext(ctx, "unshare", "--mount", "sh", "-c", inside, "sh", hosts,
		filepath.Join(programs, "ginkgo"), fmt.Sprintf("--procs=%d", s.side), "--no-color", "--succinct", "--fail-on-empty",
		"--timeout="+cmp.Or(s.patience, 2*patience).String(), "--json-report="+report, "--focus="+s.focus, "--skip="+s.skip,
		filepath.Join(programs, "e2e.test"),
		"--", "--kubeconfig="+kubeconfig, "--provider=local", "--num-nodes=2")
	command.Dir = folder
	out, err := command.CombinedOutput()
	t.Log(outcomeOf(report))
	if err != nil {
		kept, createErr := os.CreateTemp("", "hortus-specs-*.log")
		if createErr != nil {
			t.Fatal(createErr)
		}
		_, writeErr := kept.Write(out)
		t.Fatalf("the specs failed: %v, see %s (%v):\n%s", err, kept.Name(), errors.Join(writeErr, kept.Close()),
			out[max(0, len(out)-1500):])
	}
}

// outcomeOf reads a report: how many specs passed, and the others with the reason.
func outcomeOf(file string) string {
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText, State     string
			Failure                 struct{ Message string }
			RunTime                 time.Duration
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("there is no report: %v", err)
	}
	if err := json.Unmarshal(content, &reports); err != nil {
		return fmt.Sprintf("the report cannot be read: %v", err)
	}
	counts, lines := map[string]int{}, []string{}
	for _, report := range reports {
		for _, spec := range report.SpecReports {
			// What the expressions leave out is skipped without a reason.
			if spec.LeafNodeText == "" || spec.State == "skipped" && spec.Failure.Message == "" {
				continue
			}
			counts[spec.State]++
			if spec.State != "passed" {
				reason, _, _ := strings.Cut(spec.Failure.Message, "\n")
				name := strings.Join(append(slices.Clone(spec.ContainerHierarchyTexts), spec.LeafNodeText), " ")
				lines = append(lines, fmt.Sprintf("%s after %s: %s: %s", spec.State, spec.RunTime.Round(time.Second), name, reason))
			}
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%v\n%s", counts, strings.Join(lines, "\n"))
}
