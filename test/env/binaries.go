package env

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// kubernetesVersion is the kube-apiserver that tests run against: the landscape's default.
const kubernetesVersion = "v1.36.3"

// repositoryRoot finds the directory of the main module above the working directory, which for tests is the directory
// of their package.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if content, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			strings.HasPrefix(string(content), "module hortus.dev/hortus\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("the working directory is in no checkout of hortus.dev/hortus")
		}
		dir = parent
	}
}

// binaries returns the paths of etcd and kube-apiserver.
func binaries() (etcd, apiserver string, err error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", "", err
	}
	bin := filepath.Join(root, ".build", "bin")
	apiserver = filepath.Join(bin, "kubernetes", kubernetesVersion, "kube-apiserver")
	if _, err := os.Stat(apiserver); err != nil {
		return "", "", fmt.Errorf("%w; build it with: hortus components build kubernetes-1.36.3", err)
	}
	found, err := filepath.Glob(filepath.Join(bin, "etcd", "v*", "etcd"))
	if err != nil || len(found) == 0 {
		return "", "", fmt.Errorf("no etcd below %s; build it with: hortus components build etcd", bin)
	}
	etcd = slices.MaxFunc(found, func(a, b string) int {
		return semver.Compare(filepath.Base(filepath.Dir(a)), filepath.Base(filepath.Dir(b)))
	})
	return etcd, apiserver, nil
}

// leash writes a script that runs a program and ends it with the test's process, however that ends.
func leash(dir, program string) (string, error) {
	path := filepath.Join(dir, filepath.Base(program))
	script := fmt.Sprintf("#!/bin/sh\ncommand -v setpriv >/dev/null && exec setpriv --pdeathsig KILL %[1]s \"$@\"\nexec %[1]s \"$@\"\n", program)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		return "", fmt.Errorf("write start script: %w", err)
	}
	return path, nil
}
