package components

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Unpack returns the folder with the files of a package of the distribution, and of its dependencies that are not
// installed here. It is for packages that would start a server on this machine if they were installed. Like components,
// the folder is kept among the artifacts.
func Unpack(ctx context.Context, progress io.Writer, artifacts, name string) (string, error) {
	root := filepath.Join(artifacts, "distribution", name)
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return "", fmt.Errorf("make folder for packages: %w", err)
	}
	unlock, err := lock(ctx, root+".lock")
	if err != nil {
		return "", fmt.Errorf("lock package %s: %w", name, err)
	}
	defer unlock()
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("package %s cannot be fetched without %s: install what it is called in this distribution",
				name, program)
		}
	}
	fmt.Fprintf(progress, "unpacking Debian package %s\n", name)
	work, err := os.MkdirTemp(filepath.Dir(root), name+"-")
	if err != nil {
		return "", fmt.Errorf("make folder for package %s: %w", name, err)
	}
	defer os.RemoveAll(work)
	if err := fetch(ctx, name, filepath.Join(work, "archives"), filepath.Join(work, "root")); err != nil {
		return "", fmt.Errorf("unpack Debian package %s: %w", name, err)
	}
	if err := os.Rename(filepath.Join(work, "root"), root); err != nil {
		return "", fmt.Errorf("unpack Debian package %s: %w", name, err)
	}
	return root, nil
}

// fetch downloads a package with its dependencies, and unpacks all into root.
func fetch(ctx context.Context, name, archives, root string) error {
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		return err
	}
	absolute, err := filepath.Abs(archives)
	if err != nil {
		return err
	}
	// The system does not change, so concurrent installations need not end first.
	err = aptInstall(ctx, "--download-only", "-o", "Dir::Cache::archives="+absolute, "-o", "Debug::NoLocking=1", name)
	if err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(absolute, "*.deb"))
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return errors.New("nothing was downloaded: it is installed, but its files are not where they belong")
	}
	for _, p := range packages {
		if err := runQuietly(ctx, "dpkg-deb", "--extract", p, root); err != nil {
			return err
		}
	}
	return nil
}
