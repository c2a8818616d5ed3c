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

// OnDemand builds the images of a Kubernetes version when one of them is requested for the first time. It builds one
// version after the other, and continues when the requester has disconnected.
type OnDemand struct {
	// Build makes images, all of one version, and ends with the process.
	Build func(names []string) error
	Log   *slog.Logger
	Clock clock.Clock
	// LastBuild returns the Kubernetes version that was built last, and how long it took; "" if none has been built.
	LastBuild func() (version string, took time.Duration, err error)

	mu     sync.Mutex
	builds map[string]*versionBuild
	turn   sync.Mutex
}

type versionBuild struct {
	done  chan struct{}
	err   error     // Valid once done is closed.
	begun time.Time // Zero while another version is being built.
}

// Make waits until the image has been built. It returns [registry.ErrUnknown] for what it does not build.
func (o *OnDemand) Make(ctx context.Context, name string) error {
	version := ""
	for _, v := range components.KubernetesVersions {
		if slices.Contains(image.Kubernetes(v), name) {
			version = v
		}
	}
	if version == "" {
		return fmt.Errorf("%w %q", registry.ErrUnknown, name)
	}
	build := o.start(version)
	timeout := o.Clock.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-build.done:
		return build.err
	case <-timeout.C():
	case <-ctx.Done():
	}
	return o.explain(version, build)
}

// explain returns an error with the reason why there is no image yet.
func (o *OnDemand) explain(version string, build *versionBuild) error {
	o.mu.Lock()
	begun := build.begun
	o.mu.Unlock()
	text := fmt.Sprintf("Kubernetes %s is being built, since it is used for the first time: ", version)
	if begun.IsZero() {
		return errors.New(text + "it comes after another version")
	}
	text += fmt.Sprintf("it has taken %s", o.Clock.Since(begun).Round(time.Second))
	last, took, err := o.LastBuild()
	switch {
	case err != nil:
		o.Log.Error("Reading how long the last build took failed", "error", err)
	case last != "":
		text += fmt.Sprintf(", Kubernetes %s took %s", last, took.Round(time.Second))
	}
	return errors.New(text)
}

// start begins the build unless it runs. A failed build is retried at the next request.
func (o *OnDemand) start(version string) *versionBuild {
	o.mu.Lock()
	defer o.mu.Unlock()
	if build := o.builds[version]; build != nil {
		return build
	}
	if o.builds == nil {
		o.builds = map[string]*versionBuild{}
	}
	build := &versionBuild{done: make(chan struct{})}
	o.builds[version] = build
	go func() {
		o.turn.Lock()
		defer o.turn.Unlock()
		o.mu.Lock()
		build.begun = o.Clock.Now()
		o.mu.Unlock()
		o.Log.Info("Building Kubernetes on first use", "version", version)
		build.err = o.Build(image.Kubernetes(version))
		if build.err != nil {
			build.err = fmt.Errorf("build Kubernetes %s on first use: %w", version, build.err)
			o.Log.Error("Build failed", "error", build.err)
		} else {
			o.Log.Info("Kubernetes is built", "version", version)
		}
		o.mu.Lock()
		delete(o.builds, version)
		o.mu.Unlock()
		close(build.done)
	}()
	return build
}
