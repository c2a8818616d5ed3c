// Command kubernetes-facts writes what the kube-apiserver of each offered Kubernetes minor would refuse, so that
// validation can refuse it first: unknown or locked feature gates, unknown API versions, unknown admission plugins.
//
// It reads the sources of the releases, which the go command provides. Usage:
//
//	kubernetes-facts FILE 1.34.4 1.35.4 1.36.3
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: kubernetes-facts FILE VERSION...")
	}
	facts := map[int]*release{}
	for _, version := range os.Args[2:] {
		r, err := read(version)
		if err != nil {
			log.Fatalf("read Kubernetes %s: %v", version, err)
		}
		facts[r.minor] = r
	}
	source, err := format.Source(render(facts))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], source, 0o644); err != nil {
		log.Fatal(err)
	}
}

// release is what one Kubernetes release knows.
type release struct {
	minor    int
	gates    map[string]string // Name to "", "true" or "false": the value it is locked to.
	versions []string
	plugins  []string
}

// gateFiles define feature gates that all components share.
var gateFiles = map[string][]string{
	"kubernetes":              {"pkg/features/kube_features.go"},
	"apiserver":               {"pkg/features/kube_features.go"},
	"apiextensions-apiserver": {"pkg/features/kube_features.go"},
	"controller-manager":      {"pkg/features/kube_features.go"},
	"component-base": {
		"metrics/features/kube_features.go", "zpages/features/kube_features.go", "logs/api/v1/kube_features.go",
	},
	"client-go": {"features/known_features.go"},
}

func read(version string) (*release, error) {
	minor, err := strconv.Atoi(strings.Split(version, ".")[1])
	if err != nil {
		return nil, err
	}
	r := &release{minor: minor, gates: map[string]string{"AllAlpha": "", "AllBeta": ""}}
	staging := "v0" + strings.TrimPrefix(version, "1")
	dirs := map[string]string{}
	for module := range gateFiles {
		at := staging
		if module == "kubernetes" {
			at = "v" + version
		}
		if dirs[module], err = directory("k8s.io/" + module + "@" + at); err != nil {
			return nil, err
		}
	}
	if dirs["api"], err = directory("k8s.io/api@" + staging); err != nil {
		return nil, err
	}

	names := map[string]string{} // Identifiers of gates to their names.
	var files []*ast.File
	for _, module := range slices.Sorted(maps.Keys(gateFiles)) {
		for _, name := range gateFiles[module] {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dirs[module], name), nil,
				parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			collectNames(file, names)
			files = append(files, file)
		}
	}
	for _, file := range files {
		r.collectGates(file, names)
	}
	if err := r.collectVersions(dirs["kubernetes"], dirs["api"]); err != nil {
		return nil, err
	}
	return r, r.collectPlugins(dirs["kubernetes"], dirs["apiserver"])
}

func directory(module string) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	var info struct{ Dir string }
	return info.Dir, json.Unmarshal(out, &info)
}

// collectNames reads constants and variables such as Foo featuregate.Feature = "Foo".
func collectNames(file *ast.File, names map[string]string) {
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST && gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			if len(value.Values) != 1 {
				continue
			}
			if text, ok := stringOf(value.Values[0]); ok {
				names[value.Names[0].Name] = text
			}
		}
	}
}

func stringOf(e ast.Expr) (string, bool) {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 { // A conversion to the type of gates.
		e = call.Args[0]
	}
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

func identifier(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// collectGates reads maps of gates to specs, and of each the spec that is in force in this minor.
func (r *release) collectGates(file *ast.File, names map[string]string) {
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		mapType, ok := literal.Type.(*ast.MapType)
		if !ok || identifier(mapType.Value) != "VersionedSpecs" {
			return true
		}
		for _, element := range literal.Elts {
			pair := element.(*ast.KeyValueExpr)
			name, ok := names[identifier(pair.Key)]
			specs, isList := pair.Value.(*ast.CompositeLit)
			if !ok || !isList {
				log.Fatalf("gate %q is written in an unknown way", identifier(pair.Key))
			}
			if locked, known := inForce(specs, r.minor); known {
				r.gates[name] = locked
			}
		}
		return false
	})
}

// inForce returns the value to which a gate is locked in a minor, and whether it exists there.
func inForce(specs *ast.CompositeLit, minor int) (locked string, known bool) {
	best := -1
	for _, element := range specs.Elts {
		since, value, lock := -1, "false", false
		for _, f := range element.(*ast.CompositeLit).Elts {
			pair := f.(*ast.KeyValueExpr)
			switch identifier(pair.Key) {
			case "Version":
				text, _ := stringOf(pair.Value.(*ast.CallExpr).Args[0])
				since, _ = strconv.Atoi(strings.Split(text, ".")[1])
			case "Default":
				value = identifier(pair.Value)
			case "LockToDefault":
				lock = identifier(pair.Value) == "true"
			}
		}
		if since > minor || since < best {
			continue
		}
		best, locked = since, ""
		if lock {
			locked = value
		}
	}
	return locked, best >= 0
}

// collectVersions reads the API versions that the API server serves or can be configured to serve.
func (r *release) collectVersions(kubernetes, api string) error {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(kubernetes, "pkg/controlplane/instance.go"), nil,
		parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	imports := map[string]string{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if spec.Name != nil {
			imports[spec.Name.Name] = path
		}
	}
	r.versions = []string{"apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1"}
	var failed error
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "SchemeGroupVersion" {
			return true
		}
		path := strings.Replace(imports[identifier(selector.X)], "k8s.io/kubernetes/pkg/apis/", "k8s.io/api/", 1)
		inAPI, ok := strings.CutPrefix(path, "k8s.io/api/")
		if !ok {
			return true
		}
		group, err := groupName(filepath.Join(api, inAPI, "register.go"))
		if err != nil {
			failed = err
			return false
		}
		version := filepath.Base(inAPI)
		if group != "" {
			version = group + "/" + version
		}
		r.versions = append(r.versions, version)
		return true
	})
	slices.Sort(r.versions)
	r.versions = slices.Compact(r.versions)
	return failed
}

func groupName(path string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	names := map[string]string{}
	collectNames(file, names)
	return names["GroupName"], nil
}

// collectPlugins reads the admission plugins; their names stand in the packages that the list refers to.
func (r *release) collectPlugins(kubernetes, apiserver string) error {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(kubernetes, "pkg/kubeapiserver/options/plugins.go"),
		nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dirs := map[string]string{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		dir := strings.NewReplacer("k8s.io/kubernetes", kubernetes, "k8s.io/apiserver", apiserver).Replace(path)
		alias := filepath.Base(path)
		if spec.Name != nil {
			alias = spec.Name.Name
		}
		dirs[alias] = dir
	}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		value := gen.Specs[0].(*ast.ValueSpec)
		if value.Names[0].Name != "AllOrderedPlugins" {
			continue
		}
		for _, element := range value.Values[0].(*ast.CompositeLit).Elts {
			name, err := pluginName(dirs[identifier(element.(*ast.SelectorExpr).X)])
			if err != nil {
				return err
			}
			r.plugins = append(r.plugins, name)
		}
	}
	slices.Sort(r.plugins)
	return nil
}

func pluginName(dir string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	names := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		collectNames(file, names)
	}
	if names["PluginName"] == "" {
		return "", fmt.Errorf("no constant PluginName in %s", dir)
	}
	return names["PluginName"], nil
}

func render(facts map[int]*release) []byte {
	minors := slices.Sorted(maps.Keys(facts))
	var out bytes.Buffer
	fmt.Fprintf(&out, "// Code generated by tools/kubernetes-facts. DO NOT EDIT.\n\npackage v1beta1\n\n")
	fmt.Fprintf(&out,
		"// Kubernetes minors that the facts below are about.\nconst firstKnownMinor, lastKnownMinor = %d, %d\n\n", minors[0],
		minors[len(minors)-1])

	gates := map[string]map[int]string{}
	for minor, r := range facts {
		for name, locked := range r.gates {
			if gates[name] == nil {
				gates[name] = map[int]string{}
			}
			gates[name][minor] = locked
		}
	}
	fmt.Fprintf(&out,
		"// featureGates maps each gate to the minors that know it: 'o' open, 't' and 'f' locked to true and false, '-' unknown.\nvar featureGates = map[string]string{\n")
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		states := ""
		for minor := minors[0]; minor <= minors[len(minors)-1]; minor++ {
			locked, known := gates[name][minor]
			switch {
			case !known:
				states += "-"
			case locked == "":
				states += "o"
			default:
				states += locked[:1]
			}
		}
		fmt.Fprintf(&out, "%q: %q,\n", name, states)
	}
	fmt.Fprintf(&out, "}\n\n")
	list(&out, "apiVersions maps each API version to the minors that know it: 'o' known, '-' unknown.", "apiVersions",
		facts, minors, func(r *release) []string { return r.versions })
	list(&out, "admissionPlugins maps each admission plugin to the minors that know it: 'o' known, '-' unknown.",
		"admissionPlugins", facts, minors, func(r *release) []string { return r.plugins })
	return out.Bytes()
}

func list(out *bytes.Buffer, comment, name string, facts map[int]*release, minors []int, of func(*release) []string) {
	known := map[string]bool{}
	for _, r := range facts {
		for _, entry := range of(r) {
			known[entry] = true
		}
	}
	fmt.Fprintf(out, "// %s\nvar %s = map[string]string{\n", comment, name)
	for _, entry := range slices.Sorted(maps.Keys(known)) {
		states := ""
		for minor := minors[0]; minor <= minors[len(minors)-1]; minor++ {
			if facts[minor] != nil && slices.Contains(of(facts[minor]), entry) {
				states += "o"
			} else {
				states += "-"
			}
		}
		fmt.Fprintf(out, "%q: %q,\n", entry, states)
	}
	fmt.Fprintf(out, "}\n\n")
}
