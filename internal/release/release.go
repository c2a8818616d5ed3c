package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// Platforms that a release is for, as GOOS/GOARCH.
var Platforms = []string{"linux/amd64", "linux/arm64"}

// Source is a commit of the repository.
type Source struct {
	// Folder is the work tree.
	Folder string
	// Commit is the hash, and Time the time of the commit: the time of everything in the release.
	Commit string
	Time   time.Time
	// Changed are files with changes that are not part of the commit.
	Changed []string
}

// Options of a build.
type Options struct {
	// Version is a semantic version with a leading v.
	Version string
	Source  Source
	// Output is the folder for the files; it is created, and must be empty.
	Output string
	// Compile builds a program for a platform, and returns its path.
	Compile func(ctx context.Context, p Program, platform string) (string, error)
	// Progress gets one line for each step.
	Progress io.Writer
}

// Result says what was built.
type Result struct {
	// Image is the reference of the image, by digest.
	Image string
	// Files are the names of the files in the output folder, with their SHA-256 checksums.
	Files map[string]string
}

const (
	sumsFile  = "SHA256SUMS"
	notesFile = "NOTES.md"
)

// Build writes all files of a release. It reports all problems of the options before it begins.
func Build(ctx context.Context, o Options) (*Result, error) {
	if err := check(o); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Output, 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", o.Output, err)
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(o.Progress, format+"\n", args...) }

	built := map[string]map[string]string{} // Paths by platform and name of the program.
	for _, platform := range Platforms {
		built[platform] = map[string]string{}
		for _, program := range Programs {
			say("building %s for %s", program.Name, platform)
			file, err := o.Compile(ctx, program, platform)
			if err != nil {
				return nil, fmt.Errorf("build %s for %s: %w", program.Name, platform, err)
			}
			built[platform][program.Name] = file
		}
	}
	for _, platform := range Platforms {
		name := "hortus-" + o.Version + "-" + strings.ReplaceAll(platform, "/", "-")
		if err := copyFile(built[platform]["hortus"], filepath.Join(o.Output, name)); err != nil {
			return nil, err
		}
	}
	say("packing the image")
	digest, err := writeImage(o, built)
	if err != nil {
		return nil, err
	}
	say("packing the charts")
	if err := writeCharts(o, digest); err != nil {
		return nil, err
	}
	say("listing the modules")
	if err := writeBOM(o, built[Platforms[0]]); err != nil {
		return nil, err
	}
	if err := copyFile(o.notes(), filepath.Join(o.Output, notesFile)); err != nil {
		return nil, err
	}
	files, err := writeSums(o.Output)
	if err != nil {
		return nil, err
	}
	return &Result{Image: o.reference() + "@" + digest, Files: files}, nil
}

func (o Options) reference() string { return repository + ":" + o.Version }

// notes is the file of the repository that says what is new in the version.
func (o Options) notes() string {
	return filepath.Join(o.Source.Folder, "docs", "releases", o.Version+".md")
}

func check(o Options) error {
	var errs []error
	if version, err := semver.StrictNewVersion(strings.TrimPrefix(o.Version, "v")); err != nil ||
		"v"+version.String() != o.Version {
		errs = append(errs, fmt.Errorf("version: invalid value: %q (a semantic version with a leading v, such as v1.2.3)",
			o.Version))
	} else if _, err := os.Stat(o.notes()); err != nil {
		errs = append(errs, fmt.Errorf("docs/releases/%s.md: required: the notes of the release", o.Version))
	}
	for _, file := range o.Source.Changed {
		errs = append(errs, fmt.Errorf("%s: changed: commit it first, since a release is built from a commit", file))
	}
	if entries, err := os.ReadDir(o.Output); err == nil && len(entries) > 0 {
		errs = append(errs, fmt.Errorf("output: not empty: %s (an empty folder, or none)", o.Output))
	}
	return errors.Join(errs...)
}

// writeSums writes the checksums of all files in the form of sha256sum, and returns them.
func writeSums(folder string) (map[string]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	sums := map[string]string{}
	var lines []string
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		sums[entry.Name()] = sum
		lines = append(lines, sum+"  "+entry.Name()+"\n")
	}
	slices.Sort(lines)
	if err := os.WriteFile(filepath.Join(folder, sumsFile), []byte(strings.Join(lines, "")), 0o644); err != nil {
		return nil, fmt.Errorf("write checksums: %w", err)
	}
	return sums, nil
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close() //nolint:errcheck // Read only.
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	return nil
}
