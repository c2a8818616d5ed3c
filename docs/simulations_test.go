package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runnable is how a part of a manager starts that is not a controller.
const runnable = ") Start(ctx context.Context) error {"

// TestControllersAreInTheTableOfSimulations keeps the table of docs/controllers/README.md complete: each folder with a
// controller, or with another runnable of a manager, is a row, which has its simulation or the reason why there is
// none.
func TestControllersAreInTheTableOfSimulations(t *testing.T) {
	page, err := os.ReadFile("controllers/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "\n## Simulations\n")
	if !ok {
		t.Fatal("docs/controllers/README.md has no section Simulations")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(table, -1) {
		rows[row[1]] = row[2]
	}
	found := map[string]bool{}
	for _, top := range []string{"extension", "internal", "local"} {
		err := filepath.WalkDir(filepath.Join(repository, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(source), "ControllerManagedBy(") &&
				!strings.Contains(string(source), runnable) {
				return err
			}
			folder, err := filepath.Rel(repository, filepath.Dir(path))
			found[filepath.ToSlash(folder)] = true
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for folder := range found {
		if rows[folder] == "" {
			t.Errorf("docs/controllers/README.md, Simulations: %s is missing", folder)
		}
	}
	for folder, what := range rows {
		if !found[folder] {
			t.Errorf("docs/controllers/README.md, Simulations: %s has no controller", folder)
		}
		if !strings.Contains(what, "[TestSimulate") && !strings.HasPrefix(what, "not yet: ") &&
			!strings.HasPrefix(what, "none: ") {
			t.Errorf("docs/controllers/README.md, Simulations: %s: %q (a simulation, \"not yet: \" or \"none: \")", folder, what)
		}
	}
}
