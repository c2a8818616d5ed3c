package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"hortus.dev/hortus/internal/image"
)

// TestAdd packs the program of this test, which is static.
func TestAdd(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	artifacts := t.TempDir()
	reference, err := Add(artifacts, "example.com/notice:0.1.0", program)
	if err != nil {
		t.Fatal(err)
	}
	name, digest, _ := strings.Cut(reference, "@")
	if name != "example.com/notice:0.1.0" {
		t.Errorf("the reference is %q", reference)
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	img, err := layout.Path(LayoutDir(artifacts)).Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/" + filepath.Base(program)}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point mismatch (-want +got):\n%s", diff)
	}
	if config.Config.User != nobody {
		t.Errorf("the program runs as %q", config.Config.User)
	}
	if again, err := Add(artifacts, "example.com/notice:0.1.0", program); err != nil || again != reference {
		t.Errorf("the same program again gives %q, %v, want %q", again, err, reference)
	}
}

func TestAddRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for label, tc := range map[string]struct{ name, want string }{
		"no tag":                       {"example.com/notice", "name: "},
		"no registry":                  {"notice:0.1.0", "name: "},
		"one of ours":                  {image.Etcd, "name: taken"},
		"a file that is not a program": {"example.com/notice:0.1.0", "read program"},
	} {
		if _, err := Add(t.TempDir(), tc.name, text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the error is %v, want %q", label, err, tc.want)
		}
	}
}
