package images

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/clouddaemon/registry"
)

func TestOnDemand(t *testing.T) {
	begun, end := make(chan []string, 10), make(chan error)
	o := &OnDemand{
		Log: slog.New(slog.DiscardHandler), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		Build: func(names []string) error {
			begun <- names
			return <-end
		},
		LastBuild: func(string) (string, time.Duration, error) { return "", 0, nil },
	}
	if err := o.Make(t.Context(), image.Pause); !errors.Is(err, registry.ErrUnknown) {
		t.Errorf("Make of an image that is always present = %v, want %v", err, registry.ErrUnknown)
	}
	var wg sync.WaitGroup
	ask := func(name string, failed bool) {
		wg.Go(func() {
			if err := o.Make(t.Context(), name); (err != nil) != failed {
				t.Errorf("Make(%s) = %v, failure wanted: %v", name, err, failed)
			}
		})
	}
	ask(image.KubeAPIServer("1.35.4"), true)
	if got := <-begun; !slices.Equal(got, image.Kubernetes("1.35.4")) {
		t.Errorf("built %v, want all images of the version", got)
	}
	// A caller whose wait ends gets the reason, and the build continues.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Make(gone, image.KubeProxy("1.35.4")); err == nil || errors.Is(err, registry.ErrUnknown) {
		t.Errorf("Make without patience = %v, want an explanation", err)
	}
	if len(begun) != 0 {
		t.Error("a version is built twice concurrently")
	}
	end <- errors.New("no network")
	wg.Wait()
	// A failed build is retried.
	ask(image.KubeAPIServer("1.35.4"), false)
	<-begun
	end <- nil
	wg.Wait()
	ask(image.Gvisor, false)
	if got := <-begun; !slices.Equal(got, []string{image.Gvisor}) {
		t.Errorf("built %v for gVisor", got)
	}
	end <- nil
	wg.Wait()
}

func TestOnDemandExplains(t *testing.T) {
	clock, begun, end := clocktesting.NewFakeClock(time.Unix(0, 0)), make(chan bool, 3), make(chan error)
	defer close(end)
	o := &OnDemand{
		Log: slog.New(slog.DiscardHandler), Clock: clock,
		Build: func([]string) error {
			begun <- true
			return <-end
		},
		LastBuild: func(component string) (string, time.Duration, error) {
			if component != "kubernetes" {
				return "", 0, nil
			}
			return "1.36.3", 137 * time.Second, nil
		},
	}
	ask := func(image, want string) {
		t.Helper()
		answer := make(chan error)
		go func() { answer <- o.Make(t.Context(), image) }()
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
		clock.Step(patience)
		if err := <-answer; err == nil || err.Error() != want {
			t.Errorf("Make after %s = %v, want %s", patience, err, want)
		}
	}
	o.start(kubernetes("1.35.4"))
	<-begun
	clock.SetTime(time.Unix(0, 0).Add(30 * time.Second))
	ask(image.KubeProxy("1.35.4"),
		"Kubernetes 1.35.4 is being built, since it is used for the first time: it has taken 50s, Kubernetes 1.36.3 took 2m17s")
	ask(image.KubeProxy("1.34.4"),
		"Kubernetes 1.34.4 is being built, since it is used for the first time: it comes after another version")
	ask(image.Gvisor, "gVisor "+image.GvisorVersion+
		" is being built, since it is used for the first time: it comes after another version")
}

// TestOnDemandExplainsARepeatedBuild: whoever requests one without waiting for the result learns why the last build
// failed.
func TestOnDemandExplainsARepeatedBuild(t *testing.T) {
	begun, end := make(chan bool, 3), make(chan error)
	o := &OnDemand{
		Log: slog.New(slog.DiscardHandler), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		Build: func([]string) error {
			begun <- true
			return <-end
		},
		LastBuild: func(string) (string, time.Duration, error) { return "", 0, nil },
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ask := func(want string) {
		t.Helper()
		if err := o.Make(ended, image.Kubelet("1.35.4")); err == nil || err.Error() != want {
			t.Errorf("Make without patience = %v, want %s", err, want)
		}
	}
	ask("Kubernetes 1.35.4 is being built, since it is used for the first time: it has taken 0s")
	build := o.start(kubernetes("1.35.4"))
	<-begun
	end <- errors.New("no network")
	<-build.done
	ask("Kubernetes 1.35.4 is being built (again, the last time failed: build Kubernetes 1.35.4 on first use: no network)" +
		", since it is used for the first time: it has taken 0s")
	build = o.start(kubernetes("1.35.4"))
	<-begun
	end <- nil
	<-build.done
	ask("Kubernetes 1.35.4 is being built, since it is used for the first time: it has taken 0s")
	<-begun
	end <- nil
}
