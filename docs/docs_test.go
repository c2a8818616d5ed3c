// Package docs_test checks that the targets, commands, flags, files, links and tests in documents exist. It runs none
// of them.
package docs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"hortus.dev/hortus/internal/cli"
)

const repository = ".."

// documents are the README, the tutorial and everything below docs, by path from the root of the repository.
func documents(t *testing.T) map[string]document {
	t.Helper()
	docs := map[string]document{}
	read := func(path string) {
		data, err := os.ReadFile(filepath.Join(repository, path))
		if err != nil {
			t.Fatal(err)
		}
		docs[path] = parse(string(data))
	}
	read("README.md")
	read("examples/extension/README.md")
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			read(filepath.Join("docs", path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestCommandsOfDocumentsExist(t *testing.T) {
	targets := makeTargets(t)
	checked := 0
	for path, doc := range documents(t) {
		for _, line := range doc.commands {
			for _, words := range commandsOf(line) {
				checked++
				if err := checkCommand(words, targets); err != nil {
					t.Errorf("%s: %q: %v", path, line, err)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d commands were found; is the parser broken?", checked)
	}
}

func TestCheckCommand(t *testing.T) {
	targets := []string{"up"}
	for line, good := range map[string]bool{
		"make up":                                true,
		"make upp":                               false,
		"make -j2 up KEY=value":                  true,
		"hortus plan --until 2y":                 true,
		"hortus plan --until":                    false,
		"hortus plan --untill 2y":                false,
		"hortus plann":                           false,
		"hortus cloud instances list -o json":    true,
		"hortus cloud instances lst":             false,
		"kubectl apply -f examples/shoot.yaml":   true,
		"kubectl apply -f examples/nothing.yaml": false,
		"kubectl apply -f -":                     true,
		"kubectl get seeds":                      true,
		"go test ./internal/flow":                true,
		"go test ./internal/flaw":                false,
		"go run -C tools ./apidocs":              true,
		"tools/generate":                         true,
		"tools/degenerate":                       false,
		"cd api && go test ./...":                true,
		"A=b hortus plann":                       false,
		"export A=$(hortus plann)":               false,
		"hortus lint | make upp":                 false,
		"ls # make upp":                          true,
	} {
		var err error
		for _, words := range commandsOf(line) {
			if e := checkCommand(words, targets); e != nil {
				err = e
			}
		}
		if (err == nil) != good {
			t.Errorf("%q gives %v", line, err)
		}
	}
}

// checkCommand returns why a command could not work, if it is one of ours or refers to our files.
func checkCommand(words, targets []string) error {
	switch words[0] {
	case "make":
		for _, word := range words[1:] {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && !slices.Contains(targets, word) {
				return fmt.Errorf("the Makefile has no target %q", word)
			}
		}
	case "hortus":
		return checkHortus(words[1:])
	case "kubectl":
		for i, word := range words[:len(words)-1] {
			if word == "-f" && !strings.HasPrefix(words[i], "kubectl logs") {
				if err := checkFile(words[i+1]); err != nil {
					return err
				}
			}
		}
	case "go":
		module := "."
		if i := slices.Index(words, "-C"); i > 0 && i+1 < len(words) {
			module = words[i+1]
		}
		for _, word := range words[1:] {
			folder, _, _ := strings.Cut(word, "...")
			if strings.HasPrefix(word, "./") {
				if err := checkFile(filepath.Join(module, folder)); err != nil {
					return err
				}
			}
		}
	default:
		if strings.Contains(words[0], "/") { // A script.
			return checkFile(words[0])
		}
	}
	return nil
}

// checkHortus parses a command line without running it.
func checkHortus(args []string) error {
	command, rest, err := cli.NewCommand().Find(args)
	if err != nil {
		return err
	}
	if command.DisableFlagParsing {
		return nil
	}
	command.InitDefaultHelpFlag()
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	positional := command.Flags().Args()
	if command.HasSubCommands() && !command.Runnable() && len(positional) > 0 {
		return fmt.Errorf("%s has no command %q", command.CommandPath(), positional[0])
	}
	if len(args) == 1 { // The name of a part in a sentence, such as `hortus apiserver`.
		return nil
	}
	return command.ValidateArgs(positional)
}

func checkFile(path string) error {
	if path == "-" || strings.ContainsAny(path, "$<*") || strings.Contains(path, "://") || filepath.IsAbs(path) {
		return nil
	}
	_, err := os.Stat(filepath.Join(repository, path))
	return err
}

func makeTargets(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, match := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):([^=]|$)`).FindAllStringSubmatch(string(data), -1) {
		targets = append(targets, match[1])
	}
	return targets
}

func TestLinksOfDocumentsResolve(t *testing.T) {
	docs := documents(t)
	for path, doc := range docs {
		for _, link := range doc.links {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			file, heading, _ := strings.Cut(link, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(filepath.Join(repository, target)); err != nil {
				t.Errorf("%s: link %q: %v", path, link, err)
				continue
			}
			if other, read := docs[target]; heading != "" && read && !slices.Contains(other.headings, heading) {
				t.Errorf("%s: link %q: no such heading", path, link)
			}
		}
	}
}

// TestNamedTestsExist checks every test that a document mentions with a link to its file, as docs/features.md does.
func TestNamedTestsExist(t *testing.T) {
	named := regexp.MustCompile("\\[`?((?:Test|Fuzz|Benchmark|check)\\w*)`?\\]\\(([^)#]+_test\\.go)\\)")
	for path, doc := range documents(t) {
		for _, match := range named.FindAllStringSubmatch(doc.prose, -1) {
			file := filepath.Join(repository, filepath.Dir(path), match[2])
			source, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", path, err)
			} else if !strings.Contains(string(source), "func "+match[1]+"(") {
				t.Errorf("%s: %s has no %s", path, match[2], match[1])
			}
		}
	}
}

// TestNamedFilesExist checks the Go files that documents name as code: a path from the root, or its last parts. A name
// that begins with "_" is the end of the names of several files. Decisions name files that have been removed since.
func TestNamedFilesExist(t *testing.T) {
	out, err := exec.Command("git", "-C", repository, "ls-files", "*.go").Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	files := strings.Fields(string(out))
	named := regexp.MustCompile("`([A-Za-z0-9_./-]+\\.go)`")
	checked := 0
	for path, doc := range documents(t) {
		if strings.HasPrefix(path, "docs/adr/") {
			continue
		}
		for _, match := range named.FindAllStringSubmatch(doc.prose, -1) {
			checked++
			if !slices.ContainsFunc(files, func(file string) bool { return isNamed(file, match[1]) }) {
				t.Errorf("%s: %s does not exist", path, match[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d names of files were found; is the pattern broken?", checked)
	}
}

// isNamed reports whether a document that names a file may mean the file with this path.
func isNamed(file, name string) bool {
	if strings.HasPrefix(name, "_") {
		return strings.HasSuffix(file, name)
	}
	return file == name || strings.HasSuffix(file, "/"+name)
}

func TestIsNamed(t *testing.T) {
	for name, want := range map[string]bool{
		"internal/flow/plan.go": true, "flow/plan.go": true, "plan.go": true, "_plan.go": false, "low/plan.go": false,
		"other.go": false,
	} {
		if got := isNamed("internal/flow/plan.go", name); got != want {
			t.Errorf("isNamed(%q) = %t, want %t", name, got, want)
		}
	}
}

// TestArchitectureListsAllFolders: each folder below internal, local and test, and each API group, has a row.
func TestArchitectureListsAllFolders(t *testing.T) {
	rows := map[string]bool{}
	folder := regexp.MustCompile("`((?:internal|local|test)/[a-z0-9]+)[`/]")
	groups := ""
	for line := range strings.Lines(documents(t)["docs/architecture.md"].prose) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, match := range folder.FindAllStringSubmatch(cells[1], -1) {
			rows[match[1]] = true
		}
		if strings.Contains(cells[1], "`api/`") {
			groups = cells[2]
		}
	}
	for _, top := range []string{"internal", "local", "test"} {
		entries, err := os.ReadDir(filepath.Join(repository, top))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			path := top + "/" + entry.Name()
			if entry.IsDir() && !rows[path] {
				t.Errorf("docs/architecture.md: %s has no row", path)
			}
			delete(rows, path)
		}
	}
	for path := range rows {
		t.Errorf("docs/architecture.md: %s does not exist", path)
	}
	versions, err := filepath.Glob(filepath.Join(repository, "api", "*", "v1*"))
	if err != nil || len(versions) == 0 {
		t.Fatalf("API groups: %v, %v", versions, err)
	}
	for _, version := range versions {
		if group := filepath.Base(filepath.Dir(version)); !strings.Contains(groups, "`"+group+"`") {
			t.Errorf("docs/architecture.md: the row of api/ does not have the group %s", group)
		}
	}
}

func TestFeaturesHaveTests(t *testing.T) {
	row := regexp.MustCompile(`^\| ([A-Z]\d\d) \|`)
	seen := map[string]bool{}
	there, _, found := strings.Cut(documents(t)["docs/features.md"].prose, "## Not there yet")
	if !found {
		t.Error("docs/features.md does not say what is not there yet")
	}
	for line := range strings.Lines(there) {
		match := row.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		if seen[match[1]] {
			t.Errorf("row %s is there twice", match[1])
		}
		seen[match[1]] = true
		if !strings.Contains(line, "_test.go)") {
			t.Errorf("row %s names no test", match[1])
		}
	}
	if len(seen) == 0 {
		t.Error("docs/features.md has no rows")
	}
}

func TestAPIReferenceIsUpToDate(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "./apidocs", "-check", "../api", "../docs/api")
	command.Dir = filepath.Join(repository, "tools")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestModulesShareVersions: modules that are built together with the main one share compiled packages only if their
// dependencies have the same versions.
func TestModulesShareVersions(t *testing.T) {
	versions := requirements(t, ".")
	for _, module := range []string{"extension", filepath.Join("examples", "extension")} {
		for path, version := range requirements(t, module) {
			if of := versions[path]; of != "" && of != version {
				t.Errorf("%s requires %s %s, the main module %s", module, path, version, of)
			}
		}
	}
}

// requirements of a module, with their versions.
func requirements(t *testing.T, module string) map[string]string {
	t.Helper()
	file := filepath.Join(repository, module, "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.ParseLax(file, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, require := range mod.Require {
		versions[require.Mod.Path] = require.Mod.Version
	}
	return versions
}

// TestDependenciesAreListed checks the direct requirements and the imports; 'go mod tidy' handles the rest.
func TestDependenciesAreListed(t *testing.T) {
	text, imported := documents(t)["docs/dependencies.md"].prose, imports(t)
	files, err := filepath.Glob(filepath.Join(repository, "local", "components", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{".", "api", "extension"} {
		files = append(files, filepath.Join(repository, module, "go.mod"))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		mod, err := modfile.ParseLax(file, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, require := range mod.Require {
			path := require.Mod.Path
			used := slices.ContainsFunc(imported, func(i string) bool { return i == path || strings.HasPrefix(i, path+"/") })
			if !require.Indirect && used && !strings.Contains(text, "`"+path+"`") {
				t.Errorf("docs/dependencies.md does not say what %s of %s is for", path, file)
			}
		}
	}
}

// imports are the paths that any Go file of the repository imports.
func imports(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() != ".." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			found[strings.Trim(spec.Path.Value, `"`)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(maps.Keys(found))
}

// TestControllersHavePages finds every controller and admission plugin by the name in its source.
func TestControllersHavePages(t *testing.T) {
	var pages strings.Builder
	for path, doc := range documents(t) {
		if strings.HasPrefix(path, "docs/controllers/") {
			pages.WriteString(doc.prose)
		}
	}
	name := regexp.MustCompile(`(?:\bNamed\(|\bName = )"([A-Za-z-]+)"`)
	found := 0
	for _, folder := range []string{
		"internal/apiserver/admission", "internal/controllermanager", "internal/scheduler", "internal/gardenlet",
		"internal/nodeagent", "internal/resourcemanager", "local/provider",
	} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range name.FindAllStringSubmatch(string(source), -1) {
				found++
				if !strings.Contains(pages.String(), "`"+match[1]+"`") {
					t.Errorf("docs/controllers does not mention %s (%s)", match[1], path)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 30 {
		t.Errorf("only %d names were found; is the pattern broken?", found)
	}
}
