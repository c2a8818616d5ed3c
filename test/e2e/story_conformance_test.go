//go:build landscape

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/hortus/test/specs"
)

// TestConformance runs Kubernetes' conformance tests on a Shoot of two nodes: first those that may run concurrently,
// then the others. HORTUS_KUBERNETES is the version of the Shoot and the tests (default: the newest); HORTUS_SPECS is a
// regular expression that selects tests. docs/conformance.md has the results.
func TestConformance(t *testing.T) {
	story(t, everything)
	const name = "conformant"
	kubernetes := cmp.Or(os.Getenv("HORTUS_KUBERNETES"), exampleKubernetes)
	example, version := example(t, "shoot-two-pools.yaml"), fmt.Sprintf("version: %q", exampleKubernetes)
	if !strings.Contains(example, version) {
		t.Fatalf("the example lacks %s", version)
	}
	applyShootTextOn(t, strings.Replace(example, version, fmt.Sprintf("version: %q", kubernetes), 1), name, "local-1")
	buildSpecs(t, kubernetes)
	awaitSucceeded(t, name)
	focus := os.Getenv("HORTUS_SPECS")
	ran := 0
	for _, part := range []struct {
		name string
		specRun
	}{
		{"those that run side by side", specRun{focus: focus, labels: "Conformance && !(Serial || Disruptive)", side: 8}},
		{"those that run alone", specRun{focus: focus, labels: "Conformance && (Serial || Disruptive)", side: 1}},
	} {
		// The second part runs even if the first fails.
		t.Run(part.name, func(t *testing.T) {
			part.patience = 3 * time.Hour
			version := serverVersion(t, shootKubeconfig(t, name))
			results := runSpecs(t, name, part.specRun)
			ran += len(results) - specs.Count(results)[specs.NotRun]
			if err := specs.Record(filepath.Join(repository, "docs"), version, results); err != nil {
				t.Error(err)
			}
		})
	}
	if ran == 0 && !t.Failed() {
		t.Errorf("no conformance test matches HORTUS_SPECS: %q", focus)
	}
}
