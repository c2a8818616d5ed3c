package docs_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/hortus/test/specs"
)

// TestConformancePageShowsTheResults compares the page with the recorded results of the conformance tests.
func TestConformancePageShowsTheResults(t *testing.T) {
	suites, err := specs.Load(".")
	if err != nil || len(suites) == 0 {
		t.Fatalf("%d files with results: %v", len(suites), err)
	}
	page, err := os.ReadFile("conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(specs.Page(suites), string(page)); diff != "" {
		t.Errorf("conformance.md differs from the output of 'make conformance' (-want +got):\n%s", diff)
	}
}
