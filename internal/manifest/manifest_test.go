package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	project = "apiVersion: core.gardener.cloud/v1beta1\nkind: Project\nmetadata:\n  name: dev\n"
	seed    = `{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Seed","metadata":{"name":"home"}}`
)

// summary identifies a manifest, with the problems of its parser.
func summary(o *Object) string {
	text := fmt.Sprintf("%s:%d %d %s %s/%s", o.File, o.Line(""), o.Document, o.Kind, o.Namespace, o.Name)
	for _, p := range o.Problems {
		text += fmt.Sprintf("; %d: %s", p.Line, p)
	}
	return text
}

func read(t *testing.T, text string) []string {
	t.Helper()
	got, err := Read([]string{"-"}, strings.NewReader(text), summary)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func item(text string) string {
	return "- " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

func TestFormsOfManifests(t *testing.T) {
	const list = "apiVersion: v1\nkind: List\nitems:\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":       {"", nil},
		"comments only": {"# a\n---\n  # b\n%YAML 1.1\n---\n", nil},
		"null":          {"null\n---\n~\n", nil},
		"a document":    {project, []string{"stdin:1 1 Project /dev"}},
		"documents are numbered": {
			"---\n---\n" + project + "--- # next\n\n" + project, []string{"stdin:3 1 Project /dev",
				"stdin:9 2 Project /dev"},
		},
		"content on the line of marker": {"--- " + seed + "\n", []string{"stdin:1 1 Seed /home"}},
		"dashes that are not a marker": {
			project + "  annotations:\n    a: |-\n      ---\n      b\n",
			[]string{"stdin:1 1 Project /dev"},
		},
		"end of a document": {
			project + "...\n---\n" + project + "...\n", []string{"stdin:1 1 Project /dev",
				"stdin:7 2 Project /dev"},
		},
		"byte order mark, carriages": {
			"\ufeff" + strings.ReplaceAll(project, "\n", "\r\n"),
			[]string{"stdin:1 1 Project /dev"},
		},
		"JSON values": {
			seed + seed + "\n\n" + seed, []string{"stdin:1 1 Seed /home", "stdin:1 1 Seed /home",
				"stdin:3 1 Seed /home"},
		},
		"JSON with tabs": {
			"{\n\t\"kind\": \"Seed\",\n\t\"apiVersion\": \"a/v1\"\n}",
			[]string{"stdin:1 1 Seed /"},
		},
		"YAML that looks like JSON": {"{kind: Seed}", []string{"stdin:1 1 Seed /"}},
		"a List": {
			list + item(project) + "# b\n" + item(project), []string{"stdin:4 1 Project /dev",
				"stdin:9 1 Project /dev"},
		},
		"a List with indented items": {
			list + "  " + strings.ReplaceAll(item(project), "\n", "\n  "),
			[]string{"stdin:4 1 Project /dev"},
		},
		"a List with aliases": {
			list + "- &a\n  kind: A\n- *a\n", []string{"stdin:4 1 A /",
				"stdin:6 1 A /"},
		},
		"a List of Lists": {
			list + item(list+item(project)+item(project)), []string{"stdin:7 1 Project /dev",
				"stdin:11 1 Project /dev"},
		},
		"a List in JSON": {
			"{\"kind\":\"List\",\n\"items\":[" + seed + ",\n" + seed + "]}", []string{"stdin:2 1 Seed /home",
				"stdin:3 1 Seed /home"},
		},
		"Lists in JSON, one after other": {
			`{"items":[{"kind":"A"}],"kind":"List"} {"kind":"List","items":[]}{"kind":"B"}`, []string{"stdin:1 1 A /",
				"stdin:1 1 B /"},
		},
		"a List in JSON, given twice": {
			`{"kind":"List","items":[{"kind":"A"}],"items":[{"kind":"B"}]}`,
			[]string{"stdin:1 1 B /"},
		},
		"an empty List":        {list[:len(list)-1] + " []\n", nil},
		"a List without items": {"kind: List\napiVersion: v1\n", nil},
		"a list of a kind": {
			"apiVersion: g/v1\nkind: SeedList\nitems:\n- metadata: {name: a}\n",
			[]string{"stdin:4 1 Seed /a"},
		},
		"a list of a kind in JSON": {
			`{"items":[{"metadata":{"name":"a"}}],"apiVersion":"g/v1","kind":"SeedList"}`,
			[]string{"stdin:1 1 Seed /a"},
		},
		"a kind that ends like a list": {"kind: AllowList\napiVersion: v1\n", []string{"stdin:1 1 AllowList /"}},
		"items of another kind":        {"kind: Shop\nitems:\n- a\n", []string{"stdin:1 1 Shop /"}},
		"a text with dashes in a List": {
			list + "- kind: A\n  metadata: {name: \"a\n- b\"}\n",
			[]string{"stdin:4 1 A /a - b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, read(t, tc.text),
				cmp.Transformer("nil", func(s []string) int { return len(s) })); diff != "" {
				t.Errorf("number of manifests mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.Join(tc.want, "\n"), strings.Join(read(t, tc.text), "\n")); diff != "" {
				t.Errorf("manifests mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadManifests(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML": {
			"a: b: c\n",
			"stdin:1 1  /; 1: invalid syntax: mapping values are not allowed in this context",
		},
		"a bracket is open": {
			project + "---\n# c\na: [\n",
			"stdin:7 2  /; 7: invalid syntax: did not find expected node content",
		},
		"less indented later on": {
			"  kind: A\nmetadata: {}\n",
			"stdin:1 1  /; 1: invalid syntax: did not find expected <document start>",
		},
		"two values": {
			"{a: 1}\nb: 2\n",
			"stdin:1 1  /; 1: invalid syntax: did not find expected <document start>",
		},
		"text after the end": {
			"a: 1\n...\nb: 2\n",
			"stdin:1 1  /; 2: invalid syntax: did not find expected <document start>",
		},
		"a bad item": {
			"kind: List\nitems:\n- kind: A\n- a: b: c\n",
			"stdin:1 1  /; 4: invalid syntax: mapping values are not allowed in this context",
		},
		"a text": {
			"hello\n",
			`stdin:1 1  /; 0: invalid value: "hello" (must have fields, such as apiVersion and kind)`,
		},
		"a sequence": {
			"- a\n",
			`stdin:1 1  /; 0: invalid value: ["a"] (must have fields, such as apiVersion and kind)`,
		},
		"an item that is empty": {
			`{"kind":"List","items":[null]}`,
			"stdin:1 1  /; 0: must have fields, such as apiVersion and kind",
		},
		"items are no list":   {"kind: List\nitems: {}\n", "stdin:1 1 List /; 0: items: must be a list"},
		"a field given twice": {"kind: A\na: 1\na: 2\n", "stdin:1 1 A /; 3: a: duplicate field"},
		"twice in an item": {
			"kind: List\nitems:\n- kind: A\n  a: {b: 1, b: 2}\n",
			"stdin:3 1 A /; 4: a.b: duplicate field",
		},
		"twice in a List within": {
			"kind: List\nitems:\n- kind: List\n  items:\n  - kind: A\n    a: 1\n    a: 1\n",
			"stdin:5 1 A /; 7: a: duplicate field",
		},
		"a kind that is a list": {"kind: [A]\nmetadata: {name: true, namespace: n}\n", "stdin:1 1  /"},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, tc.text)
			if len(got) == 0 || got[len(got)-1] != tc.want {
				t.Errorf("got  %q\nwant %q at the end", got, tc.want)
			}
		})
	}
}

func TestSourcesOfManifests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	manifests := filepath.Join(dir, "m")
	write("m/b/2.JSON", seed)
	write("m/b/1.yml", project)
	a := write("m/a.yaml", project)
	write("m/README.md", "{")
	write("m/.gitkeep", "")
	other := write("other.txt", seed)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(manifests, link); err != nil {
		t.Fatal(err)
	}
	file := func(o *Object) string { return strings.TrimPrefix(o.File, dir+"/") }
	for name, tc := range map[string]struct {
		paths []string
		want  []string
		err   string
	}{
		"a file":             {paths: []string{a}, want: []string{"m/a.yaml"}},
		"a file of any name": {paths: []string{other}, want: []string{"other.txt"}},
		"a folder": {
			paths: []string{manifests + "/"}, want: []string{"m/a.yaml", "m/b/1.yml", "m/b/2.JSON"},
		},
		"a link to a folder": {
			paths: []string{link}, want: []string{"link/a.yaml", "link/b/1.yml", "link/b/2.JSON"},
		},
		"several, in their order": {
			paths: []string{"-", other, a}, want: []string{"stdin", "other.txt", "m/a.yaml"},
		},
		"a file that does not exist": {
			paths: []string{a, filepath.Join(dir, "none.yaml")}, err: "none.yaml: no such file or directory",
		},
		"a file that is not accessible": {paths: []string{filepath.Join(a, "x")}, err: "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(tc.paths, strings.NewReader(seed), file)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "read manifests: ") || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("files mismatch (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Read([]string{"-"}, iotest.ErrReader(errors.New("lost")), file); err == nil ||
		err.Error() != "read manifests: stdin: lost" {
		t.Errorf("failing standard input gives %v", err)
	}
	const limit = 1 << 20
	large := write("large.yaml", project+strings.Repeat("#", limit))
	if _, err := readFile(large, limit); err == nil ||
		!strings.HasSuffix(err.Error(), "large.yaml: too large (at most 1 MiB)") {
		t.Errorf("a file that is too large gives %v", err)
	}
	if found, err := readFrom("x", strings.NewReader(strings.Repeat("#", limit)), limit); err != nil || len(found) != 0 {
		t.Errorf("a file as large as allowed gives %v", err)
	}
}

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing is wrong": {project, nil},
		"everything at once": {
			"apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nmetadata: {name: a, namespace: garden-dev}\nspec:\n" +
				"  color: red\n  kubernetes:\n    version: 1.36\n  provider:\n    workers:\n    - minimum: two\n      maximum: [3]\n      Name: a\n" +
				"  hibernation: {enabled: 1}\n",
			[]string{
				`stdin:13 Shoot garden-dev/a: spec.hibernation.enabled: invalid value: 1 (must be true or false)`,
				`stdin:7 Shoot garden-dev/a: spec.kubernetes.version: invalid value: 1.36 (must be a string)`,
				`stdin:11 Shoot garden-dev/a: spec.provider.workers[0].maximum: invalid value: [3] (must be a whole number)`,
				`stdin:10 Shoot garden-dev/a: spec.provider.workers[0].minimum: invalid value: "two" (must be a whole number)`,
				`stdin:5 Shoot garden-dev/a: spec.color: unknown field`,
				`stdin:12 Shoot garden-dev/a: spec.provider.workers[0].Name: unknown field`,
			},
		},
		"twice in JSON, and a wrong value": {
			"{\"kind\": \"Shoot\",\n\"spec\": {\"region\": \"a\",\n\"region\": \"b\",\n\"purpose\": 1}}",
			[]string{
				`stdin:3 Shoot: spec.region: duplicate field`,
				`stdin:4 Shoot: spec.purpose: invalid value: 1 (must be a string)`,
			},
		},
		"the object as a whole": {
			"kind: Shoot\nspec: none\n", []string{`stdin:2 Shoot: spec: invalid value: "none" (must have fields)`},
		},
		"a long value": {
			"kind: Shoot\nspec: " + strings.Repeat("ä", 40) + "\n",
			[]string{`stdin:2 Shoot: spec: invalid value: "` + strings.Repeat("ä", 28) + `... (must have fields)`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			_, err := Read([]string{"-"}, strings.NewReader(tc.text), func(o *Object) error {
				_, problems := Decode(o, func() *corev1beta1.Shoot { return &corev1beta1.Shoot{} })
				for _, p := range problems {
					got = append(got, o.Finding(p).String())
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownKinds(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: core.gardener.cloud/v1beta1, kind: Shoot}":         "",
		"{apiVersion: extensions.gardener.cloud/v1alpha1, kind: Worker}": "",
		"{apiVersion: example.org/v1, kind: Shooot}":                     "",
		"{apiVersion: core.gardener.cloud/v1beta1, kind: Shooot}":        `kind: unknown kind: "Shooot" (core.gardener.cloud/v1beta1 has no such kind)`,
		"{apiVersion: core.gardener.cloud/v1, kind: Shoot}":              `kind: unknown kind: "Shoot" (core.gardener.cloud/v1 has no such kind)`,
		"{kind: Shoot}":       "apiVersion and kind must be given",
		"{apiVersion: v1}":    "apiVersion and kind must be given",
		"{a: b, c: [d, {}] }": "apiVersion and kind must be given",
	} {
		got, err := Read([]string{"-"}, strings.NewReader(text), func(o *Object) string {
			p, unknown := o.UnknownKind()
			if !unknown {
				return ""
			}
			return p.String()
		})
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	findings := make(Errors, maxShownFindings+3)
	for i := range findings {
		findings[i] = Finding{File: "a.yaml", Document: i + 1, Problem: Problem{Message: "wrong"}}
	}
	lines := strings.Split(findings.Error(), "\n")
	if len(lines) != maxShownFindings+1 || lines[0] != "a.yaml document 1: wrong" ||
		lines[maxShownFindings] != "... and 3 more" {
		t.Errorf("error = %q", lines)
	}
}

// FuzzRead checks that no input stops the reader, and that Lists which are split have the items that the parser sees.
func FuzzRead(f *testing.F) {
	list := "apiVersion: v1\nkind: List\nitems:\n" + item(project) + item(project)
	for _, seed := range []string{project, seed, list, "--- # a\n" + list + "...\n", `{"kind":"List","items":[` + seed +
		"]}" + seed, "- &a b\n- *a",
		"kind: List\nitems:\n   metadata:\n    name: dev\n- kind: A\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fields := func(o *Object) string {
			Decode(o, func() *corev1beta1.Shoot { return &corev1beta1.Shoot{} })
			return fmt.Sprint(o.Line("spec") >= 0, o.Parsed(), o.Fields())
		}
		got, err := Read([]string{"-"}, bytes.NewReader(text), fields)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		var last *piece
		for _, p := range split("stdin", text) {
			if p.whole == nil {
				want = append(want, each(p.objects(), fields)...)
			} else if p.whole != last {
				last = p.whole
				want = append(want, each(last.objects(), fields)...)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Lists that are split differ from whole ones (-whole +split):\n%s", diff)
		}
	})
}
