package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.24\n",
		// The number of links has another type on each architecture.
		"stat.go": "package m\n\nimport \"syscall\"\n\nfunc links(s syscall.Stat_t) uint64 { return s.Nlink }\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(root, "amd64", "", "./..."); err != nil {
		t.Errorf("a package that is right on amd64: %v", err)
	}
	if err := check(root, "arm64", "", "./..."); err == nil || !strings.Contains(err.Error(), "stat.go:5") {
		t.Errorf("a package that is wrong on arm64: %v", err)
	}
}
