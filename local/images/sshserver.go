package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/hortus/local/components"
)

const sshServerProgram = "/usr/sbin/sshd"

// sshServerFiles are the SSH server, the generator of its key, and the programs that newer versions run for each
// connection.
var sshServerFiles = []string{
	sshServerProgram, "/usr/bin/ssh-keygen", "/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth",
}

// sshServer collects the distribution's SSH server with its libraries, but for what is there already. Where it is not
// installed it is only unpacked: people want no new server on their machine.
func sshServer(ctx context.Context, progress io.Writer, artifacts string, there []Entry) ([]Entry, error) {
	root := ""
	if _, err := os.Stat(sshServerProgram); err != nil {
		if root, err = components.Unpack(ctx, progress, artifacts, "openssh-server"); err != nil {
			return nil, err
		}
		if root, err = filepath.Abs(root); err != nil {
			return nil, fmt.Errorf("find the SSH server: %w", err)
		}
	}
	programs := sshServerPrograms(root, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if len(programs) == 0 || programs[0] != root+sshServerProgram {
		return nil, fmt.Errorf("find the SSH server: %s is missing", root+sshServerProgram)
	}
	libraries, err := sharedLibraries(ctx, programs, libraryFolders(root)...)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, source := range slices.Concat(programs, libraries) {
		path := strings.TrimPrefix(strings.TrimPrefix(source, root), "/")
		if !slices.ContainsFunc(there, func(e Entry) bool { return e.Path == path || e.Path == "/"+path }) {
			entries = append(entries, Entry{Path: path, Source: source})
		}
	}
	return entries, nil
}

// sshServerPrograms returns the programs with their paths: unpacked in root, or installed on this machine.
func sshServerPrograms(root string, exists func(path string) bool) []string {
	var programs []string
	for _, file := range sshServerFiles {
		for _, path := range []string{root + file, file} {
			if exists(path) {
				programs = append(programs, path)
				break
			}
		}
	}
	return programs
}

// libraryFolders returns the folders with the libraries of unpacked packages.
func libraryFolders(root string) []string {
	if root == "" {
		return nil
	}
	var folders []string
	for _, pattern := range []string{"lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // The pattern is valid.
		folders = append(folders, found...)
	}
	return folders
}
