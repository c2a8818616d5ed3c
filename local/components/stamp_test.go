package components

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
)

func testSource() fstest.MapFS {
	return fstest.MapFS{
		"go.mod":     {Data: []byte("module m\n")},
		"go.sum":     {Data: []byte("sum\n")},
		"sub/a.go":   {Data: []byte("package sub\n")},
		"sub/b/b.go": {Data: []byte("package b\n")},
	}
}

func testComponent() Component {
	return Component{
		Name: "thing", Version: "v1.0.0", Folder: "thing",
		Programs: []Program{{Name: "thing", Source: "."}}, Tags: []string{"small"}, LDFlags: []string{"-X a=b"},
	}
}

func TestHashInputsChangesWithEveryInput(t *testing.T) {
	with := compiler{GoVersion: "go1.26.8", Arch: "amd64"}
	hash := func(source fstest.MapFS, c Component, with compiler) string {
		t.Helper()
		h, err := hashInputs(source, c, with)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash(testSource(), testComponent(), with)
	if again := hash(testSource(), testComponent(), with); again != base {
		t.Errorf("hashInputs() = %s, then %s for the same inputs", base, again)
	}
	packages := testComponent()
	packages.Needs = []DebianPackage{gcc}
	if hash(testSource(), packages, with) != base {
		t.Error("hashInputs() depends on the packages of the distribution")
	}

	variants := map[string]func(fstest.MapFS, *Component, *compiler){
		"a changed file": func(s fstest.MapFS, _ *Component, _ *compiler) { s["go.sum"].Data = []byte("other\n") },
		"a new file":     func(s fstest.MapFS, _ *Component, _ *compiler) { s["c.go"] = &fstest.MapFile{} },
		"a removed file": func(s fstest.MapFS, _ *Component, _ *compiler) { delete(s, "sub/a.go") },
		"a renamed file": func(s fstest.MapFS, _ *Component,
			_ *compiler) {
			s["sub/c.go"] = s["sub/a.go"]
			delete(s, "sub/a.go")
		},
		"another version":   func(_ fstest.MapFS, c *Component, _ *compiler) { c.Version = "v1.0.1" },
		"another tag":       func(_ fstest.MapFS, c *Component, _ *compiler) { c.Tags = []string{"large"} },
		"another link flag": func(_ fstest.MapFS, c *Component, _ *compiler) { c.LDFlags = nil },
		"cgo":               func(_ fstest.MapFS, c *Component, _ *compiler) { c.CGO = true },
		"another program": func(_ fstest.MapFS, c *Component,
			_ *compiler) {
			c.Programs = []Program{{Name: "x", Source: "."}}
		},
		"another Go version": func(_ fstest.MapFS, _ *Component, w *compiler) { w.GoVersion = "go1.27.0" },
		"another processor":  func(_ fstest.MapFS, _ *Component, w *compiler) { w.Arch = "arm64" },
	}
	seen := map[string]string{base: "the base"}
	for name := range maps.Keys(variants) {
		source, c, w := testSource(), testComponent(), with
		variants[name](source, &c, &w)
		h := hash(source, c, w)
		if other, taken := seen[h]; taken {
			t.Errorf("hashInputs() is the same for %s and %s", name, other)
		}
		seen[h] = name
	}
}

func TestReadState(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    State
	}{
		"missing without files":       {prepare: func(*testing.T, string) {}, want: Missing},
		"built with a matching stamp": {prepare: func(t *testing.T, dir string) { place(t, dir, "inputs", 4) }, want: Built},
		"stale with other inputs":     {prepare: func(t *testing.T, dir string) { place(t, dir, "older", 4) }, want: Stale},
		"missing if truncated": {
			prepare: func(t *testing.T, dir string) { place(t, dir, "inputs", 5) }, want: Missing,
		},
		"missing with a broken stamp": {prepare: func(t *testing.T, dir string) {
			place(t, dir, "inputs", 4)
			write(t, filepath.Join(dir, stampFile), "{")
		}, want: Missing},
		"missing without the program": {prepare: func(t *testing.T, dir string) {
			place(t, dir, "inputs", 4)
			if err := os.Remove(filepath.Join(dir, "program")); err != nil {
				t.Fatal(err)
			}
		}, want: Missing},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tc.prepare(t, dir)
			got, _, err := readState(dir, "inputs")
			if err != nil || got != tc.want {
				t.Errorf("readState() = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// place writes a program of 4 bytes and a stamp with the given size.
func place(t *testing.T, dir, inputs string, size int64) {
	t.Helper()
	write(t, filepath.Join(dir, "program"), "1234")
	s := &stamp{Inputs: inputs, BuiltAt: time.Unix(0, 0).UTC(), Sizes: map[string]int64{"program": size}}
	if err := writeStamp(dir, s); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
