package networkagent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstallPlugin(t *testing.T) {
	source := filepath.Join(t.TempDir(), "plugin")
	dir := filepath.Join(t.TempDir(), "cni", "bin")
	target := filepath.Join(dir, "hortus-policy")
	write := func(path, content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	install := func() os.FileInfo {
		t.Helper()
		if err := installPlugin(source, dir); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("installed %q, want %q", got, want)
		}
		info, err := os.Stat(target)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o755 {
			t.Errorf("mode %v", info.Mode())
		}
		return info
	}
	if err := installPlugin(source, dir); err == nil {
		t.Error("a missing plugin is not an error")
	}
	write(source, "one", 0o600)
	first := install()
	if !os.SameFile(first, install()) {
		t.Error("the same plugin is replaced")
	}
	write(filepath.Join(dir, "bridge"), "foreign", 0o755)
	write(source, "two", 0o755)
	second := install()
	if os.SameFile(first, second) {
		t.Error("the plugin is written in place, while it may be running")
	}
	write(target, "two", 0o644)
	install()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("directory has %v, %v; want bridge and the plugin", entries, err)
	}
}
