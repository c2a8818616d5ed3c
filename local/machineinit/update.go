package machineinit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// imageRepository holds the machine images; they are container images, whose files make up a machine's root.
const imageRepository = "hortus.dev/machine"

// notUpdated are the directories that an update does not change: mounts, data, and configuration that the machine got
// after its image.
var notUpdated = []string{"dev", "mnt", "proc", "root", "run", "sys", "tmp", "var"}

var imageVersion = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]*$`)

// Update replaces the files of the machine image by those of another version, and then calls reboot. Everything up to
// the reboot can be repeated. Its error says "network problems" where another try may help, which is what node agents
// look for.
func Update(ctx context.Context, root, version string, reboot func(context.Context) error) (err error) {
	if !imageVersion.MatchString(version) {
		return fmt.Errorf("invalid arguments: %q is not a version", version)
	}
	image := imageRepository + ":" + version
	if out, err := ctr(ctx, "images", "pull", "--hosts-dir", filepath.Join(root, "/etc/containerd/certs.d"),
		image); err != nil {
		return fmt.Errorf("network problems: pull %s: %w: %s", image, err, out)
	}
	mounted, err := os.MkdirTemp("", "machine-image-")
	if err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(mounted)) }()
	if out, err := ctr(ctx, "images", "mount", image, mounted); err != nil {
		return fmt.Errorf("system failure: mount %s: %w: %s", image, err, out)
	}
	copyErr := install(mounted, root)
	// The directory could not be removed with a remaining mount, so the image is unmounted before any return.
	if out, err := ctr(ctx, "images", "unmount", "--rm", mounted); err != nil {
		return errors.Join(copyErr, fmt.Errorf("system failure: unmount %s: %w: %s", image, err, out))
	}
	if copyErr != nil {
		return fmt.Errorf("system failure: install %s: %w", image, copyErr)
	}
	return reboot(ctx)
}

func ctr(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"--namespace", "k8s.io"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// versionFile shows which version is installed.
const versionFile = "etc/os-release"

// install copies the files that belong to the image, the version last: after an interruption it shows the old one.
func install(from, root string) error {
	if err := copyTree(from, root, func(path string) bool { return !updated(path) || path == versionFile }); err != nil {
		return err
	}
	return copyTree(from, root, func(path string) bool { return path != "etc" && path != versionFile })
}

// updated reports whether a path, relative to the root, belongs to the image. Of /etc only the version does: the rest
// may have been changed on the machine.
func updated(path string) bool {
	top, rest, _ := strings.Cut(path, "/")
	if top == "etc" {
		return rest == "" || path == versionFile
	}
	return !slices.Contains(notUpdated, top)
}

// copyTree copies files, links and directories from one tree over another. Files are replaced by a rename, since
// programs among them are running.
func copyTree(from, to string, skip func(path string) bool) error {
	return filepath.WalkDir(from, func(source string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(from, source)
		if err != nil || path == "." {
			return err
		}
		if skip(path) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, path)
		switch {
		case entry.IsDir():
			if existing, err := os.Stat(target); err == nil && existing.IsDir() {
				return nil // May be a link to a directory.
			}
			return os.Mkdir(target, info.Mode().Perm())
		case entry.Type()&fs.ModeSymlink != 0:
			return copyLink(source, target)
		case entry.Type().IsRegular():
			return copyOne(source, target, info.Mode().Perm())
		}
		return nil // Devices and sockets are made at boot.
	})
}

func copyLink(source, target string) error {
	link, err := os.Readlink(source)
	if err != nil {
		return err
	}
	if existing, err := os.Readlink(target); err == nil && existing == link {
		return nil
	}
	if err := os.Remove(target + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(link, target+".new"); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}

func copyOne(source, target string, mode fs.FileMode) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}
