package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "hortus.dev/hortus/"
)

// graph maps each package to the packages that it imports, of the project and of others.
type graph struct{ imports map[string][]string }

// repository reads the graph once. It reads the project's own files itself, so that the go command knows when a cached
// result is outdated, and lists other packages, which go.mod determines, with the go command.
func repository(t *testing.T) *graph {
	t.Helper()
	g, err := readGraph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var readGraph = sync.OnceValues(func() (*graph, error) {
	g := &graph{imports: map[string][]string{}}
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	list.Dir = root
	var problem bytes.Buffer
	list.Stderr = &problem
	out, err := list.Output()
	if err != nil {
		return nil, errors.New(problem.String())
	}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if !own(p.ImportPath) {
			g.imports[p.ImportPath] = p.Imports
		}
	}
	return g, filepath.WalkDir(root, g.visit)
})

// modules have boundaries although they are separate modules.
var modules = []string{
	filepath.Join(root, "api"), filepath.Join(root, "extension"), filepath.Join(root, "examples", "extension"),
}

// visit adds the imports of one file of the project, whatever its build constraints.
func (g *graph) visit(file string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name := entry.Name()
	if entry.IsDir() {
		isRoot := file == root
		_, err := os.Stat(filepath.Join(file, "go.mod"))
		otherModule := err == nil && !slices.Contains(modules, file)
		if !isRoot && (strings.HasPrefix(name, ".") || name == "testdata" || otherModule) {
			return fs.SkipDir
		}
		return nil
	}
	if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
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
	imports := g.imports[p]
	for _, imported := range parsed.Imports {
		imports = append(imports, strings.Trim(imported.Path.Value, `"`))
	}
	slices.Sort(imports)
	g.imports[p] = slices.Compact(imports)
	return nil
}

// reach returns everything that a package imports, even indirectly, with one importer each.
func (g *graph) reach(p string) map[string]string {
	reached := map[string]string{}
	for queue := []string{p}; len(queue) > 0; queue = queue[1:] {
		for _, imported := range g.imports[queue[0]] {
			if _, seen := reached[imported]; !seen {
				reached[imported] = queue[0]
				queue = append(queue, imported)
			}
		}
	}
	return reached
}

func own(p string) bool { return strings.HasPrefix(p, module) }

// below is the path of a package below the module; paths of other modules' packages stay.
func below(p string) string { return strings.TrimPrefix(p, module) }

// matching returns the project's packages that match any of the patterns, at least one for each.
func matching(t *testing.T, patterns string) []string {
	t.Helper()
	var found []string
	for _, pattern := range strings.Fields(patterns) {
		before := len(found)
		for _, p := range slices.Sorted(maps.Keys(repository(t).imports)) {
			if own(p) && matches(pattern, below(p)) {
				found = append(found, p)
			}
		}
		if len(found) == before {
			t.Errorf("no package matches %q", pattern)
		}
	}
	return found
}

// sources returns the files, from the root, that match any of the patterns, at least one for each, without tests.
func sources(t *testing.T, patterns string) []string {
	t.Helper()
	var files []string
	for _, pattern := range strings.Fields(patterns) {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Errorf("no file matches %q", pattern)
		}
		for _, file := range found {
			file, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") {
				files = append(files, file)
			}
		}
	}
	return files
}

// matches reports whether a path matches any of the patterns. "*" matches anything within one element.
func matches(patterns, p string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(pattern string) bool {
		text := regexp.QuoteMeta(pattern)
		text = strings.ReplaceAll(text, `\*`, `[^/]*`)
		if prefix, found := strings.CutSuffix(text, `/\.\.\.`); found {
			text = prefix + `(/.*)?`
		}
		text = strings.ReplaceAll(text, `\.\.\.`, `.*`)
		return regexp.MustCompile(`^` + text + `$`).MatchString(path.Clean(p))
	})
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		patterns, path string
		want           bool
	}{
		{"api/...", "api", true}, {"api/...", "api/core/v1", true}, {"api/...", "apis", false},
		{"local/cloud", "local/cloud/x", false},
		{"a b/...", "b/c", true}, {"", "a", false}, {".../test/...", "a/b/test", true}, {".../test/...", "a/test/c", true},
		{".../conformance", "extension/conformance", true}, {"*.*/...", "k8s.io/api", true}, {"*.*/...", "net/http", false},
		{"test/...", "testing", false},
	} {
		if got := matches(tc.patterns, tc.path); got != tc.want {
			t.Errorf("matches(%q, %q) = %v, want %v", tc.patterns, tc.path, got, tc.want)
		}
	}
}
