package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGenerate(t *testing.T) {
	dir := t.TempDir()
	source(t, dir, "garden/v1/doc.go", "// Package v1 has plants.\n//\n// +groupName=garden.example\npackage v1\n")
	source(t, dir, "garden/v1/register.go", "package v1\n\nconst GroupName = \"garden.example\"\n")
	source(t, dir, "garden/v1/plant_types.go", `package v1

// Plant grows.
//
// +kubebuilder:validation:XValidation:rule="true",message="it has to grow"
type Plant struct {
	metav1.TypeMeta   `+"`json:\",inline\"`"+`
	metav1.ObjectMeta `+"`json:\"metadata,omitempty\"`"+`
	Shape             `+"`json:\",inline\"`"+`
	// leaves are the leaves | needles.
	// +optional
	Leaves []*Leaf `+"`json:\"leaves\"`"+`
	cache  string
}

type PlantList struct {
	metav1.TypeMeta `+"`json:\",inline\"`"+`
	Items []Plant `+"`json:\"items\"`"+`
}

// Shape is shown inline.
type Shape struct {
	// height in centimetres.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Height int `+"`json:\"height\"`"+`
}

// Leaf has a colour.
type Leaf struct {
	Colour Colour `+"`json:\"colour\"` // Of the upper side."+`
}

// Colour of something.
type Colour string

const (
	// Green is the usual one.
	Green Colour = "green"
	Red   Colour = "red" // In autumn.
)

// Unused is reached by no kind.
type Unused struct{}
`)
	files, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := string(files["garden.example-v1.md"])
	for _, want := range []string{
		"# garden.example/v1\n\nPackage v1 has plants.\n",
		"Kinds: [Plant](#plant).",
		"- Rule: it has to grow.",
		"| `height` | `int` | yes | in centimetres. Rule: is immutable. |",
		"| `leaves` | [`[]Leaf`](#leaf) |  | are the leaves \\| needles. |",
		"| `colour` | [`Colour`](#colour) | yes | Of the upper side. |",
		"| `green` | is the usual one. |",
		"| `red` | In autumn. |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"+groupName", "cache", "### Shape", "Unused", "PlantList", "TypeMeta"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("%q is in:\n%s", unwanted, got)
		}
	}

	out := t.TempDir()
	if err := write(files, out); err != nil {
		t.Fatal(err)
	}
	if err := compare(files, out); err != nil {
		t.Errorf("just written, but: %v", err)
	}
	source(t, out, "old.example-v1.md", "")
	source(t, out, "garden.example-v1.md", "edited")
	if err := compare(files, out); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("an edited and a stale file give: %v", err)
	}
}

func source(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
