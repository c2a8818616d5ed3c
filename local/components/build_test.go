package components

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tiny is a component that compiles quickly: it needs no library, not even the standard one.
func tiny(t *testing.T) (*Builder, Component, *bytes.Buffer) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatalf("the builder calls go: %v", err)
	}
	dir, progress := t.TempDir(), &bytes.Buffer{}
	write(t, filepath.Join(dir, "src", "tiny", "go.mod"), "module tiny\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "src", "tiny", "main.go"),
		"package main\n\nvar name = \"?\"\n\nfunc main() { println(name) }\n")
	b := &Builder{Source: filepath.Join(dir, "src"), Artifacts: filepath.Join(dir, "out"), Progress: progress}
	return b, Component{
		Name: "tiny", Version: "v1", Folder: "tiny", LDFlags: []string{"-X main.name=one"},
		Programs: []Program{{Name: "tiny", Source: ".", Links: []string{"alias"}}},
	}, progress
}

func TestBuild(t *testing.T) {
	b, c, progress := tiny(t)
	build := func() {
		t.Helper()
		progress.Reset()
		if err := b.Build(t.Context(), []Component{c}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want string) {
		t.Helper()
		out, err := exec.Command(filepath.Join(c.Dir(b.Artifacts), "alias")).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("built program says %q (%v), want %q", out, err, want)
		}
	}

	build()
	says("one")
	if !strings.Contains(progress.String(), "built in") {
		t.Errorf("progress of the first build is %q", progress)
	}
	build()
	if progress.Len() > 0 {
		t.Errorf("the second build was not skipped: %s", progress)
	}
	c.LDFlags = []string{"-X main.name=two"}
	build()
	says("two")

	left, err := os.ReadDir(c.Dir(b.Artifacts))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		switch f.Name() {
		case "tiny", "alias", stampFile, ".lock":
		default:
			t.Errorf("build left %s behind", f.Name())
		}
	}
}

func TestFailedBuildKeepsTheOldProgram(t *testing.T) {
	b, c, _ := tiny(t)
	if err := b.Build(t.Context(), []Component{c}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.Source, "tiny", "main.go"), "package main\n\nfunc main() { missing() }\n")
	err := b.Build(t.Context(), []Component{c})
	if err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("Build() of broken source = %v, want the compiler's message", err)
	}
	statuses, err := b.Status(t.Context(), []Component{c})
	if err != nil || statuses[0].State != Stale {
		t.Errorf("Status() after a failed build = %+v, %v, want stale", statuses, err)
	}
	if out, err := exec.Command(c.Path(b.Artifacts, "tiny")).CombinedOutput(); err != nil {
		t.Errorf("the previously built program no longer runs: %v\n%s", err, out)
	}
}

func TestBuildStopsWhenInterrupted(t *testing.T) {
	b, c, _ := tiny(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Build(ctx, []Component{c}); !errors.Is(err, context.Canceled) {
		t.Errorf("Build() = %v, want it canceled", err)
	}
	if _, err := os.Stat(c.Path(b.Artifacts, "tiny")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an interrupted build left a program: %v", err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("second lock() = %v, want to wait until canceled", err)
	}
	unlock()
	again, err := lock(t.Context(), path)
	if err != nil {
		t.Fatalf("lock() after unlock: %v", err)
	}
	again()
}
