package docs_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// feature is a row of docs/features.md.
type feature struct {
	row, promise, evidence string
	tests                  []namedTest
}

// namedTest is a test, or a function that tests call, and the path of its file from the root of the repository.
type namedTest struct{ name, file string }

// sources describe the existing tests.
type sources struct {
	// stories are the functions of test/e2e that a test there reaches, with the tests.
	stories map[string]bool
	// landscape are the files with the build tag of that name.
	landscape map[string]bool
	// servers are the folders whose tests use test/env.
	servers map[string]bool
}

var (
	featureRow = regexp.MustCompile(`^\| ([A-Z]\d\d) \| (.*) \| ([a-z]+) \| (.*) \|$`)
	testLink   = regexp.MustCompile("\\[`?((?:Test|Fuzz|check)\\w*)`?\\]\\(\\.\\./([^)#]+_test\\.go)\\)")
	// onMachines are the rows whose promise is about clusters, so that weaker evidence needs a reason.
	onMachines = regexp.MustCompile(`^[VUASG]`)
)

func parseFeature(line string) (feature, bool) {
	match := featureRow.FindStringSubmatch(strings.TrimSpace(line))
	if match == nil {
		return feature{}, false
	}
	f := feature{row: match[1], promise: match[2], evidence: match[3]}
	for _, link := range testLink.FindAllStringSubmatch(match[4], -1) {
		f.tests = append(f.tests, namedTest{link[1], link[2]})
	}
	return f, true
}

// problem returns why the tests of a row are not of the claimed kind, or "".
func (s sources) problem(f feature) string {
	var what string
	var is func(namedTest) bool
	switch f.evidence {
	case "machines":
		what = "a story of test/e2e, a check that one reaches, or a test with the build tag landscape"
		is = func(t namedTest) bool {
			return s.landscape[t.file] && (filepath.Dir(t.file) != "test/e2e" || s.stories[t.name])
		}
	case "servers":
		what, is = "a test of a package that uses test/env", func(t namedTest) bool { return s.servers[filepath.Dir(t.file)] }
	case "decisions":
		what, is = "a test", func(namedTest) bool { return true }
	default:
		return fmt.Sprintf("evidence %q (want machines, servers or decisions)", f.evidence)
	}
	if !slices.ContainsFunc(f.tests, is) {
		return fmt.Sprintf("evidence %s, but no test is %s", f.evidence, what)
	}
	less := f.evidence == "decisions" || f.evidence == "servers" && onMachines.MatchString(f.row)
	enough := f.evidence + " suffice: "
	if less && !strings.Contains(f.promise, enough) && !strings.Contains(f.promise, "missing: ") {
		return fmt.Sprintf("evidence %s, but the promise says neither %q and why nor \"missing: \" and what", f.evidence,
			enough)
	}
	return ""
}

func TestFeaturesHaveTheEvidenceThatTheyClaim(t *testing.T) {
	s := readSources(t)
	there, _, _ := strings.Cut(documents(t)["docs/features.md"].prose, "## Not there yet")
	kinds := map[string]int{}
	for line := range strings.Lines(there) {
		f, is := parseFeature(line)
		if !is {
			continue
		}
		kinds[f.evidence]++
		if problem := s.problem(f); problem != "" {
			t.Errorf("row %s: %s", f.row, problem)
		}
	}
	if kinds["machines"] < 20 || kinds["servers"] == 0 {
		t.Errorf("rows by evidence: %v; is the pattern broken?", kinds)
	}
}

func TestProblemOfEvidence(t *testing.T) {
	s := sources{
		stories:   map[string]bool{"TestStory": true, "checkNodes": true},
		landscape: map[string]bool{"test/e2e/story_test.go": true, "internal/a/kernel_landscape_test.go": true},
		servers:   map[string]bool{"internal/a/test": true},
	}
	const (
		story   = "[TestStory](../test/e2e/story_test.go)"
		check   = "[checkNodes](../test/e2e/story_test.go)"
		orphan  = "[checkOther](../test/e2e/story_test.go)"
		kernel  = "[TestKernel](../internal/a/kernel_landscape_test.go)"
		stepped = "[TestStepped](../internal/a/test/a_test.go)"
		table   = "[TestTable](../internal/a/a_test.go)"
	)
	for name, tc := range map[string]struct {
		line string
		good bool
	}{
		"a story":                       {"| U01 | it works | machines | " + table + ", " + story + " |", true},
		"a check of a story":            {"| U01 | it works | machines | " + check + " |", true},
		"a check that no story reaches": {"| U01 | it works | machines | " + orphan + " |", false},
		"a test that needs a landscape": {"| U01 | it works | machines | " + kernel + " |", true},
		"a stepped test is no machine":  {"| U01 | it works | machines | " + stepped + " |", false},
		"a table test is no server":     {"| M01 | it works | servers | " + table + " |", false},
		"servers, outside of clusters":  {"| M01 | it works | servers | " + stepped + " |", true},
		"servers for clusters":          {"| S01 | it works | servers | " + stepped + " |", false},
		"servers that suffice": {
			"| S01 | it works; servers suffice: it is the API server's | servers | " + stepped + " |", true,
		},
		"servers with something missing": {"| S01 | it works; missing: real nodes | servers | " + stepped + " |", true},
		"decisions":                      {"| M01 | it works | decisions | " + table + " |", false},
		"decisions that suffice": {
			"| M01 | it works; decisions suffice: time is all there is | decisions | " + table + " |", true,
		},
		"the reason of another kind": {
			"| M01 | it works; servers suffice: time is all there is | decisions | " + table + " |", false,
		},
		"an unknown kind": {"| M01 | it works; missing: all | hopes | " + story + " |", false},
	} {
		t.Run(name, func(t *testing.T) {
			f, is := parseFeature(tc.line)
			if !is {
				t.Fatal("not parsed")
			}
			if problem := s.problem(f); (problem == "") != tc.good {
				t.Errorf("problem %q, good is %v", problem, tc.good)
			}
		})
	}
}

// readSources reads all tests of the repository's main module.
func readSources(t *testing.T) sources {
	t.Helper()
	s := sources{stories: stories(t, "test/e2e"), landscape: map[string]bool{}, servers: map[string]bool{}}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() != ".." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		s.landscape[relative] = needsLandscape(file)
		for _, spec := range file.Imports {
			if spec.Path.Value == strconv.Quote("hortus.dev/hortus/test/env") {
				s.servers[filepath.Dir(relative)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// needsLandscape says whether a file is built only with the tag landscape.
func needsLandscape(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			expression, err := constraint.Parse(comment.Text)
			if err != nil || group.Pos() > file.Package {
				continue
			}
			return !expression.Eval(func(tag string) bool { return tag != "landscape" })
		}
	}
	return false
}

// stories are the functions of a folder of tests that its tests reach, with the tests.
func stories(t *testing.T, folder string) map[string]bool {
	t.Helper()
	uses, reached := map[string][]string{}, map[string]bool{} // Names used by each function.
	files, err := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s: %v", len(files), folder, err)
	}
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if !is || function.Recv != nil {
				continue
			}
			ast.Inspect(function.Body, func(n ast.Node) bool {
				if name, is := n.(*ast.Ident); is {
					uses[function.Name.Name] = append(uses[function.Name.Name], name.Name)
				}
				return true
			})
		}
	}
	var reach func(name string)
	reach = func(name string) {
		if names, declared := uses[name]; declared && !reached[name] {
			reached[name] = true
			for _, used := range names {
				reach(used)
			}
		}
	}
	for name := range uses {
		if strings.HasPrefix(name, "Test") && name != "TestMain" {
			reach(name)
		}
	}
	return reached
}
