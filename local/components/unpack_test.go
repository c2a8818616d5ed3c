package components

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package is downloaded with its dependencies, unpacked once, and not installed.
func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	for name, script := range map[string]string{
		// Package lists are outdated at first.
		"apt-get": `case $1 in
update) touch ` + dir + `/updated ;;
install)
    [ -e ` + dir + `/updated ] || exit 100
    for word; do case $word in Dir::Cache::archives=*) cd "${word#*=}"; touch server.deb library.deb ;; esac; done ;;
esac`,
		"dpkg-deb": `mkdir -p "$3/usr"; basename "$2" >"$3/usr/$(basename "$2" .deb)"`,
	} {
		content := "#!/bin/sh\nset -e\necho ${0##*/} \"$@\" >>" + calls + "\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	artifacts := filepath.Join(dir, "artifacts")
	var progress strings.Builder
	for range 2 {
		root, err := Unpack(t.Context(), &progress, artifacts, "server")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"usr/server", "usr/library"} {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Error(err)
			}
		}
	}
	if got, want := progress.String(), "unpacking Debian package server\n"; got != want {
		t.Errorf("progress is %q, want %q", got, want)
	}
	log, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "apt-get install") && !strings.Contains(line, "--download-only") {
			t.Errorf("something is installed: %s", line)
		}
	}
	left, err := filepath.Glob(filepath.Join(artifacts, "distribution", "server-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left is %v, %v", left, err)
	}
}
