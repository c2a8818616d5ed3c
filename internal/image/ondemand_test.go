package image

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

	"hortus.dev/hortus/internal/cloud/registry"
)

func TestOnDemand(t *testing.T) {
	begun, end := make(chan []string, 10), make(chan error)
	o := &OnDemand{Log: slog.New(slog.DiscardHandler), Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Build: func(names []string) error {
		begun <- names
		return <-end
	}}
	if err := o.Make(t.Context(), Pause); !errors.Is(err, registry.ErrUnknown) {
		t.Errorf("Make of an image that is always there = %v, want %v", err, registry.ErrUnknown)
	}
	var wg sync.WaitGroup
	ask := func(name string, failed bool) {
		wg.Go(func() {
			if err := o.Make(t.Context(), name); (err != nil) != failed {
				t.Errorf("Make(%s) = %v, failure wanted: %v", name, err, failed)
			}
		})
	}
	ask(KubeAPIServer("1.35.4"), true)
	if got := <-begun; !slices.Equal(got, Kubernetes("1.35.4")) {
		t.Errorf("built %v, want all images of the version", got)
	}
	// Who loses patience is told why, and the build goes on.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Make(gone, KubeProxy("1.35.4")); err == nil || errors.Is(err, registry.ErrUnknown) {
		t.Errorf("Make without patience = %v, want an explanation", err)
	}
	if len(begun) != 0 {
		t.Error("a version is built twice at once")
	}
	end <- errors.New("no network")
	wg.Wait()
	// A failed build is tried again.
	ask(KubeAPIServer("1.35.4"), false)
	<-begun
	end <- nil
	wg.Wait()
}

func TestOnDemandHasPatience(t *testing.T) {
	clock, end := clocktesting.NewFakeClock(time.Unix(0, 0)), make(chan error)
	defer close(end)
	o := &OnDemand{Log: slog.New(slog.DiscardHandler), Clock: clock, Build: func([]string) error { return <-end }}
	answer := make(chan error)
	go func() { answer <- o.Make(t.Context(), KubeProxy("1.35.4")) }()
	for !clock.HasWaiters() {
		runtime.Gosched()
	}
	clock.Step(patience)
	if err := <-answer; err == nil || errors.Is(err, registry.ErrUnknown) {
		t.Errorf("Make after %s = %v, want an explanation", patience, err)
	}
}
