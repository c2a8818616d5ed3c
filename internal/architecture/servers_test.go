package architecture

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// By means of these packages tests start servers: a kube-apiserver with its etcd, and etcd alone.
const (
	environment = module + "test/env"
	etcdtest    = module + "internal/etcdbackup/etcdtest"
)

// testImports maps each package of the main module that has tests to what these import, without the tests that need the
// landscape.
func testImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if file != root && (err == nil || strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_landscape_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		p := module + filepath.ToSlash(dir)
		for _, imported := range parsed.Imports {
			imports[p] = append(imports[p], strings.Trim(imported.Path.Value, `"`))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

// readTargets maps packages to the target of the Makefile that tests them, as tools/packages divides them.
var readTargets = sync.OnceValues(func() (map[string]string, error) {
	script := filepath.Join(root, "tools", "packages")
	if _, err := os.ReadFile(script); err != nil { // A change outdates a cached result.
		return nil, err
	}
	out, err := exec.Command(script).Output()
	if err != nil {
		return nil, fmt.Errorf("run tools/packages: %w", err)
	}
	targets := map[string]string{}
	for line := range strings.Lines(string(out)) {
		kind, p, _ := strings.Cut(strings.TrimSpace(line), " ")
		targets[p] = kind
	}
	return targets, nil
})

func targetOf(t *testing.T) map[string]string {
	t.Helper()
	targets, err := readTargets()
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

// TestServersAreStartedByTheirTargetAlone: "make test-unit" tests no package whose tests start servers, and
// together with "make test-servers" every package but the stories.
func TestServersAreStartedByTheirTargetAlone(t *testing.T) {
	targets := targetOf(t)
	found := map[string]int{}
	for p, imports := range testImports(t) {
		if p == module+"test/e2e" {
			continue
		}
		found[targets[p]]++
		for _, imported := range imports {
			if problem := serversProblem(targets[p], imported); problem != "" {
				t.Errorf("%s: %s", below(p), problem)
			}
		}
		if targets[p] == "" {
			t.Errorf("%s is tested by neither test-unit nor test-servers", below(p))
		}
	}
	if found["unit"] < 100 || found["servers"] < 10 {
		t.Errorf("packages with tests by target: %v; is tools/packages broken?", found)
	}
}

// serversProblem is why a test of a target may not import a package, or "".
func serversProblem(target, imported string) string {
	const library = "sigs.k8s.io/controller-runtime/pkg/envtest"
	if target != "servers" && (imported == environment || imported == etcdtest || strings.HasPrefix(imported, library)) {
		return fmt.Sprintf("a test imports %s, but tools/packages lists the package as %q", below(imported), target)
	}
	return ""
}

func TestServersProblem(t *testing.T) {
	for _, tc := range []struct {
		target, imported string
		want             bool
	}{
		{"unit", environment, true}, {"unit", etcdtest, true}, {"", environment, true},
		{"unit", "sigs.k8s.io/controller-runtime/pkg/envtest", true},
		{"unit", module + "test/sim", false}, {"servers", environment, false},
	} {
		if got := serversProblem(tc.target, tc.imported) != ""; got != tc.want {
			t.Errorf("serversProblem(%q, %q) is a problem: %t, want %t", tc.target, tc.imported, got, tc.want)
		}
	}
}

// TestServersHavePackagesOfTheirOwn keeps decisions in packages that "make test-unit" tests: tests on servers are in
// folders with the name test. In the exceptions they use what the package does not export, or there are few others.
func TestServersHavePackagesOfTheirOwn(t *testing.T) {
	exceptions := []string{
		"internal/bench", "internal/controllermanager", "internal/etcdbackup", "internal/etcdbackup/etcdtest",
		"internal/etcdbackup/maintain", "internal/etcdbackup/restore", "internal/etcdbackup/verify", "internal/etcdmember",
		"internal/etcdmember/command", "internal/gardenlet", "internal/gardenlet/access", "internal/gardenlet/shoot/care",
		"internal/gardenlet/shoot/kinds", "internal/nodeagent", "internal/resourcemanager",
		"internal/resourcemanager/machineaccess", "internal/scheduler", "local/provider",
		"local/provider/networkagent/policy", "test/env",
	}
	mixed := map[string]bool{}
	for p, target := range targetOf(t) {
		if target == "servers" && !slices.Contains(strings.Split(below(p), "/")[1:], "test") {
			mixed[below(p)] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(mixed)) {
		if !slices.Contains(exceptions, p) {
			t.Errorf("%s: its tests on servers belong into %s/test, so that \"make test-unit\" runs the others", p, p)
		}
	}
	for _, p := range exceptions {
		if !mixed[p] {
			t.Errorf("%s has no tests on servers any more: the exception can go", p)
		}
	}
}
