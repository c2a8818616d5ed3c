package images

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/components"
)

// Options select the images to build and their sources.
type Options struct {
	// Artifacts holds built programs (bin) and the image layout (images).
	Artifacts string
	// Components is the folder with the components' source modules, Module that of this project's own module.
	Components, Module string
	// HortusBinary is the program of the image [Hortus]; it has to be static.
	HortusBinary string
	// The other programs are built from Module when empty.
	ControlPlaneBinary, TunnelBinary, MachineInitBinary, CNIPolicyBinary, EchoBinary string
	// Images are the full names of the images to build; see [Select]. Components they lack are built first.
	Images []string
	// Progress receives a line per image that changed; nil means silence.
	Progress io.Writer
}

// LayoutDir returns the directory of the image layout.
func LayoutDir(artifacts string) string { return filepath.Join(artifacts, "images") }

// pruneAge is the minimum age of unused blobs that are removed. A pull of a replaced image is over long before.
const pruneAge = 10 * time.Minute

// Build brings the named images of the layout up to date.
func Build(ctx context.Context, o Options) error {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	from, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	unlock, err := lockLayout(o.Artifacts)
	if err != nil {
		return err
	}
	defer unlock()
	store, err := OpenStore(LayoutDir(o.Artifacts))
	if err != nil {
		return err
	}
	for _, name := range o.Images {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		start := time.Now()
		r, err := recipeFor(name, from)
		if err != nil {
			return err
		}
		img, err := assemble(store, r)
		if err != nil {
			return fmt.Errorf("build image %s: %w", name, err)
		}
		changed, err := store.Put(name, img)
		if err != nil {
			return err
		}
		if changed {
			fmt.Fprintf(o.Progress, "image %s: built in %s\n", name, time.Since(start).Round(time.Second/100))
		}
	}
	return store.Prune(pruneAge, time.Now())
}

// prepare builds and looks up everything that the images are made of.
func prepare(ctx context.Context, o Options) (sources, error) {
	from := sources{
		artifacts: o.Artifacts, hortus: o.HortusBinary, controlPlane: o.ControlPlaneBinary, tunnel: o.TunnelBinary,
		machineInit: o.MachineInitBinary, cniPolicy: o.CNIPolicyBinary, echo: o.EchoBinary,
	}
	var needed []string
	var ownInit, ownEcho, ownHortus, fromDistribution, forTests bool
	for _, name := range o.Images {
		needed = append(needed, componentsOf(name)...)
		ownHortus = ownHortus || name == image.Hortus()
		ownEcho = ownEcho || name == Echo
		ownInit = ownInit || isMachine(name)
		fromDistribution = fromDistribution || usesDistribution(name)
		forTests = forTests || usesTools(name)
	}
	// Packages are checked first: without them the images cannot be built.
	for _, taken := range []struct {
		wanted   bool
		packages []components.DebianPackage
		collect  func(context.Context) ([]Entry, error)
		into     *[]Entry
	}{
		{fromDistribution, components.MachinePackages, distribution, &from.distribution},
		{forTests, components.TestPackages, tools, &from.tools},
	} {
		if !taken.wanted {
			continue
		}
		if err := components.EnsurePackages(ctx, o.Progress, taken.packages...); err != nil {
			return sources{}, err
		}
		var err error
		if *taken.into, err = taken.collect(ctx); err != nil {
			return sources{}, err
		}
	}
	if ownInit {
		var err error
		if from.sshServer, err = sshServer(ctx, o.Progress, o.Artifacts, from.distribution); err != nil {
			return sources{}, err
		}
	}
	if len(needed) > 0 {
		builder := &components.Builder{Source: o.Components, Artifacts: o.Artifacts, Progress: o.Progress}
		if err := builder.Ensure(ctx, needed...); err != nil {
			return sources{}, err
		}
	}
	for _, own := range []struct {
		wanted bool
		pkg    string
		file   *string
	}{
		{ownInit, "./local/cmd/machine-init", &from.machineInit},
		{ownInit || ownHortus, "./local/cmd/cni-policy", &from.cniPolicy},
		{ownEcho, "./local/cmd/echo", &from.echo},
		{ownHortus, "./cmd/hortus", &from.hortus},
		{ownHortus, "./cmd/tunnel", &from.tunnel},
		{ownHortus, "./cmd/control-plane", &from.controlPlane},
	} {
		if !own.wanted {
			continue
		}
		if *own.file == "" {
			var err error
			if *own.file, err = components.BuildOwn(ctx, o.Module, own.pkg, o.Artifacts); err != nil {
				return sources{}, err
			}
		}
		if err := checkStatic(*own.file); err != nil {
			return sources{}, err
		}
	}
	return from, nil
}

func isMachine(name string) bool {
	return slices.ContainsFunc(MachineVersions, func(v string) bool { return name == Machine(v) })
}

// checkStatic refuses programs that would not start in an image without libraries.
func checkStatic(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("read program %s: %w", file, err)
	}
	defer f.Close()
	if f.Section(".interp") != nil {
		return fmt.Errorf("program %s needs shared libraries and cannot go into an image; build it with CGO_ENABLED=0", file)
	}
	return nil
}

// assemble makes the image; only layers not seen before are written.
func assemble(store *Store, r recipe) (v1.Image, error) {
	var layers []mutate.Addendum
	for _, entries := range r.layers {
		layer, err := store.Layer(entries)
		if err != nil {
			return nil, err
		}
		layers = append(layers, mutate.Addendum{Layer: layer, MediaType: types.OCIUncompressedLayer})
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Created: v1.Time{Time: epoch}, Config: r.config(),
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, layers...)
}

// lockLayout lets one process at a time change the layout; reading needs no lock.
func lockLayout(artifacts string) (unlock func(), err error) {
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		return nil, fmt.Errorf("create artifacts folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(artifacts, ".images.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock image layout: %w", err)
	}
	// The holder writes for seconds, so the wait needs no limit.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock image layout: %w", err)
	}
	return func() { f.Close() }, nil
}

// Select returns the images that the names select, in build order. A name is a full image name, its last part with tag
// ("machine:1.1.0") or without ("machine", all its tags), or "e2e" for [E2E].
func Select(names ...string) ([]string, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		found := false
		for _, full := range Names() {
			short := path.Base(full)
			repository, _, _ := strings.Cut(short, ":")
			if name == full || name == short || name == repository || name == groupE2E && slices.Contains(E2E(), full) {
				wanted[full], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("image: not found: %q; available:\n%s", name, strings.Join(Names(), "\n"))
		}
	}
	return slices.DeleteFunc(Names(), func(full string) bool { return !wanted[full] }), nil
}

// Defaults returns the images that a plain build makes: all but those of the older Kubernetes versions and of gVisor,
// which are built when a cluster pulls them, and those of Kubernetes' end-to-end tests.
func Defaults() []string {
	left := append(E2E(), image.Gvisor)
	for _, v := range components.KubernetesVersions {
		if v != components.KubernetesDefaultVersion {
			left = append(left, image.Kubernetes(v)...)
		}
	}
	return slices.DeleteFunc(Names(), func(name string) bool { return slices.Contains(left, name) })
}
