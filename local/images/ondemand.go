package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/clouddaemon/registry"
	"hortus.dev/hortus/local/components"
)

// patience is how long a pull waits for a build. Then it fails with a message about the build, and the container
// runtime retries it after growing pauses. containerd waits 30 s for a response to begin.
const patience = 20 * time.Second

// OnDemand builds the images of a Kubernetes version, or that of gVisor, when one is requested for the first time. It
// builds one version after the other, and continues when the requester has disconnected.
type OnDemand struct {
	// Build makes images, all of one version, and ends with the process.
	Build func(names []string) error
	Log   *slog.Logger
	Clock clock.Clock
	// LastBuild returns the version of a component that was built last, and how long it took; "" if none has been built.
	LastBuild func(component string) (version string, took time.Duration, err error)

	mu     sync.Mutex
	builds map[product]*versionBuild
	failed map[product]error // Of the last build, until one succeeds.
	turn   sync.Mutex
}

// product is what one build makes.
type product struct{ title, component, version string }

func (p product) String() string { return p.title + " " + p.version }

func kubernetes(version string) product { return product{"Kubernetes", "kubernetes", version} }

var gvisor = product{"gVisor", "gvisor", image.GvisorVersion}

// images returns the images that are built together.
func (p product) images() []string {
	if p == gvisor {
		return []string{image.Gvisor}
	}
	return image.Kubernetes(p.version)
}

// productOf returns the product with the image; false if it is not built on demand.
func productOf(name string) (product, bool) {
	products := []product{gvisor}
	for _, v := range components.KubernetesVersions {
		products = append(products, kubernetes(v))
	}
	i := slices.IndexFunc(products, func(p product) bool { return slices.Contains(p.images(), name) })
	if i < 0 {
		return product{}, false
	}
	return products[i], true
}

type versionBuild struct {
	done  chan struct{}
	err   error     // Valid once done is closed.
	begun time.Time // Zero while another version is being built.
}

// Make waits until the image has been built. It returns [registry.ErrUnknown] for what it does not build.
func (o *OnDemand) Make(ctx context.Context, name string) error {
	p, ok := productOf(name)
	if !ok {
		return fmt.Errorf("%w %q", registry.ErrUnknown, name)
	}
	build := o.start(p)
	timeout := o.Clock.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-build.done:
		return build.err
	case <-timeout.C():
	case <-ctx.Done():
	}
	return o.explain(p, build)
}

// explain returns an error with the reason why there is no image yet.
func (o *OnDemand) explain(p product, build *versionBuild) error {
	o.mu.Lock()
	begun, failed := build.begun, o.failed[p]
	o.mu.Unlock()
	again := ""
	if failed != nil {
		again = fmt.Sprintf(" (again, the last time failed: %v)", failed)
	}
	text := fmt.Sprintf("%s is being built%s, since it is used for the first time: ", p, again)
	if begun.IsZero() {
		return errors.New(text + "it comes after another version")
	}
	text += fmt.Sprintf("it has taken %s", o.Clock.Since(begun).Round(time.Second))
	last, took, err := o.LastBuild(p.component)
	switch {
	case err != nil:
		o.Log.Error("Reading how long the last build took failed", "error", err)
	case last != "":
		text += fmt.Sprintf(", %s %s took %s", p.title, last, took.Round(time.Second))
	}
	return errors.New(text)
}

// start begins the build unless it runs. A failed build is retried at the next request.
func (o *OnDemand) start(p product) *versionBuild {
	o.mu.Lock()
	defer o.mu.Unlock()
	if build := o.builds[p]; build != nil {
		return build
	}
	if o.builds == nil {
		o.builds = map[product]*versionBuild{}
	}
	build := &versionBuild{done: make(chan struct{})}
	o.builds[p] = build
	first := o.turn.TryLock()
	if first {
		build.begun = o.Clock.Now()
	}
	go func() {
		if !first {
			o.turn.Lock()
			o.mu.Lock()
			build.begun = o.Clock.Now()
			o.mu.Unlock()
		}
		o.Log.Info("Building images on first use", "product", p.title, "version", p.version)
		build.err = o.Build(p.images())
		if build.err != nil {
			build.err = fmt.Errorf("build %s on first use: %w", p, build.err)
			o.Log.Error("Build failed", "error", build.err)
		} else {
			o.Log.Info("Images are built", "product", p.title, "version", p.version)
		}
		o.mu.Lock()
		if o.failed == nil {
			o.failed = map[product]error{}
		}
		delete(o.failed, p)
		if build.err != nil {
			o.failed[p] = build.err
		}
		delete(o.builds, p)
		o.mu.Unlock()
		o.turn.Unlock()
		close(build.done)
	}()
	return build
}
