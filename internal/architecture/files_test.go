package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tracked reads the files of the repository that match patterns of git ls-files, by their paths.
func tracked(t *testing.T, patterns ...string) map[string][]byte {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", root, "ls-files"}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	found := map[string][]byte{}
	for _, path := range strings.Fields(string(out)) {
		source, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // Deleted, and not committed yet.
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		found[path] = source
	}
	return found
}
