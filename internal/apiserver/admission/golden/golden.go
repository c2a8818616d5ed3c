// Package golden keeps the texts with which admission refuses requests in files, so that a changed text shows as a
// difference. It is for tests.
package golden

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files of messages")

// Messages compares refusals, by the names of their cases, with testdata/<name of the test>.golden. Cases that are
// allowed have none.
func Messages(t *testing.T, messages map[string]error) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		if err := messages[name]; err != nil {
			fmt.Fprintf(&text, "# %s\n%v\n", name, err)
		}
	}
	path := filepath.Join("testdata", t.Name()+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("%s mismatch; rewrite with -update (-want +got):\n%s", path, diff)
	}
}
