package release

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"hortus.dev/hortus/internal/chart"
)

const version = "v1.2.3-rc.1"

// options are for a repository with notes; the programs are copies of one program, with name and platform appended.
func options(t *testing.T) Options {
	t.Helper()
	folder := t.TempDir()
	notes := filepath.Join(folder, "docs", "releases", version+".md")
	if err := os.MkdirAll(filepath.Dir(notes), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(notes, []byte("# What is new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program, programs := small(t), t.TempDir()
	return Options{
		Version: version, Output: filepath.Join(t.TempDir(), "out"), Progress: io.Discard,
		Source: Source{Folder: folder, Commit: "abc", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Compile: func(_ context.Context, p Program, platform string) (string, error) {
			file := filepath.Join(programs, p.Name+"-"+strings.ReplaceAll(platform, "/", "-"))
			return file, os.WriteFile(file, append(slices.Clone(program), p.Name+platform...), 0o700)
		},
	}
}

// small returns the content of the smallest program of the release.
var small = func() func(*testing.T) []byte {
	var content []byte
	return func(t *testing.T) []byte {
		t.Helper()
		if content != nil {
			return content
		}
		compiler := Compiler{Source: Source{Folder: "../.."}, Version: version, Folder: t.TempDir()}
		file, err := compiler.Compile(t.Context(), Programs[1], runtime.GOOS+"/"+runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
		if content, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		return content
	}
}()

func build(t *testing.T, o Options) *Result {
	t.Helper()
	result, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestBuildsAreReproducible: all files are the same if they are built again elsewhere.
func TestBuildsAreReproducible(t *testing.T) {
	first, second := build(t, options(t)), build(t, options(t))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two builds differ (-first +second):\n%s", diff)
	}
	want := []string{
		"NOTES.md", "garden-1.2.3-rc.1.tgz", "gardenlet-1.2.3-rc.1.tgz", "hortus-v1.2.3-rc.1-image.tar",
		"hortus-v1.2.3-rc.1-linux-amd64", "hortus-v1.2.3-rc.1-linux-arm64", "hortus-v1.2.3-rc.1.cdx.json",
		"provider-local-1.2.3-rc.1.tgz",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(first.Files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestImage(t *testing.T) {
	o := options(t)
	result := build(t, o)
	index := readImage(t, filepath.Join(o.Output, "hortus-"+version+"-image.tar"), result.Image)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, d := range manifest.Manifests {
		platforms = append(platforms, d.Platform.String())
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != d.Platform.Architecture || config.Config.Entrypoint[0] != "/usr/local/bin/hortus" ||
			config.Config.Labels[annotationRevision] != "abc" || !config.Created.Equal(o.Source.Time) {
			t.Errorf("%s: the configuration is %+v", d.Platform, config)
		}
		files := filesOf(t, img)
		for _, p := range Programs {
			content, ok := files["usr/local/bin/"+p.Name]
			if !ok || !strings.HasSuffix(content, p.Name+d.Platform.String()) {
				t.Errorf("%s: %s is missing, or for another platform", d.Platform, p.Name)
			}
		}
		if _, ok := files["tmp/"]; !ok || len(files) != len(Programs)+1 {
			t.Errorf("%s: the image has the files %v", d.Platform, slices.Sorted(maps.Keys(files)))
		}
	}
	if !slices.Equal(platforms, Platforms) {
		t.Errorf("the image is for %v, want %v", platforms, Platforms)
	}
}

// readImage unpacks an archive, and returns the index with the digest of a reference.
func readImage(t *testing.T, file, reference string) v1.ImageIndex {
	t.Helper()
	folder := t.TempDir()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range unpacked(t, bytes.NewReader(data)) {
		to := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(reference, "@")
	digest, err := v1.NewHash(text)
	if err != nil {
		t.Fatal(err)
	}
	index, err := whole.ImageIndex(digest)
	if err != nil {
		t.Fatalf("the archive has no image %s: %v", digest, err)
	}
	return index
}

func filesOf(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(files, unpacked(t, content))
	}
	return files
}

// unpacked returns the contents of an archive by their names.
func unpacked(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	r := tar.NewReader(archive)
	for {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

func TestChartsInstallTheImageOfTheRelease(t *testing.T) {
	o := options(t)
	result := build(t, o)
	for _, name := range Charts {
		packed, err := os.ReadFile(filepath.Join(o.Output, name+"-1.2.3-rc.1.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := chart.LoadArchive(packed)
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Values["image"] != result.Image {
			t.Errorf("chart %s installs %v, want %s", name, loaded.Values["image"], result.Image)
		}
		if m := loaded.Metadata; m.Version != "1.2.3-rc.1" || m.AppVersion != version {
			t.Errorf("chart %s has version %s of %s", name, m.Version, m.AppVersion)
		}
	}
}

func TestBillOfMaterialsListsModules(t *testing.T) {
	o := options(t)
	build(t, o)
	data, err := os.ReadFile(filepath.Join(o.Output, "hortus-"+version+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(data, &bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, c := range bom.Components {
		found[c.Name] = c.Version
		if c.Purl != "pkg:golang/"+c.Name+"@"+c.Version {
			t.Errorf("%s %s has purl %s", c.Name, c.Version, c.Purl)
		}
	}
	if bom.BOMFormat != "CycloneDX" || found["std"] == "" || len(found) < 2 {
		t.Errorf("%s lists %v", bom.BOMFormat, found)
	}
}

func TestBadOptionsAreReportedTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"no version":        {func(o *Options) { o.Version = "1.2" }, []string{`"1.2"`, "semantic version"}},
		"without leading v": {func(o *Options) { o.Version = "1.2.3" }, []string{`"1.2.3"`}},
		"no notes":          {func(o *Options) { o.Version = "v9.9.9" }, []string{"docs/releases/v9.9.9.md"}},
		"changed files": {
			func(o *Options) { o.Source.Changed = []string{"a.go", "b.go"} }, []string{"a.go: changed", "b.go: changed"},
		},
		"an output that is in use": {func(o *Options) { o.Output = o.Source.Folder }, []string{"output: not empty"}},
		"all at once": {
			func(o *Options) { o.Version, o.Source.Changed, o.Output = "x", []string{"a.go"}, o.Source.Folder },
			[]string{`"x"`, "a.go", "output"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			tc.change(&o)
			_, err := Build(t.Context(), o)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestProgramsThatDoNotBuild(t *testing.T) {
	o := options(t)
	o.Compile = func(context.Context, Program, string) (string, error) { return "", fmt.Errorf("does not compile") }
	const want = "etcd for linux/amd64: does not compile"
	if _, err := Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
}

// TestSource reads this repository.
func TestSource(t *testing.T) {
	s, err := ReadSource(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Commit) != 40 || s.Time.Year() < 2026 {
		t.Errorf("the commit is %s of %s", s.Commit, s.Time)
	}
	copied, err := s.Checkout(t.Context(), filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ReadSource(t.Context(), copied.Folder); err != nil || again.Commit != s.Commit ||
		len(again.Changed) > 0 {
		t.Errorf("the checkout of %s is %+v (%v)", s.Commit, again, err)
	}
	if _, err := ReadSource(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder that is no work tree has a commit")
	}
}
