// Package conformance checks that a driver keeps the contract of package driver. Every driver runs it in its tests.
package conformance

import (
	"context"
	"slices"
	"testing"
	"time"

	"hortus.dev/hortus/local/clouddaemon/driver"
)

// Subject is a driver under test.
type Subject struct {
	Driver driver.Driver
	// Machine returns a machine that boots and then runs until it is stopped.
	Machine func(t *testing.T, id string) driver.Machine
	// Advance lets injected time pass, if the driver uses any.
	Advance func()
	// Patience bounds the wait for a phase.
	Patience time.Duration
}

// Run runs all checks. Every check uses its own instance and removes it.
func Run(t *testing.T, s Subject) {
	t.Run("an unknown instance is absent", s.unknownIsAbsent)
	t.Run("a started instance runs and is listed", s.startedRuns)
	t.Run("starting twice starts once", s.startIsIdempotent)
	t.Run("a stopped instance has exited and can be started again", s.stopAndRestart)
	t.Run("a removed instance leaves nothing", s.removeLeavesNothing)
	t.Run("stop and remove accept what is not there", s.missingIsFine)
	t.Run("changes are announced", s.changesAreAnnounced)
	t.Run("the image of the machine is offered", s.imagesAreListed)
}

func (s Subject) unknownIsAbsent(t *testing.T) {
	s.expect(t, "i-conf-unknown", driver.Absent)
}

func (s Subject) startedRuns(t *testing.T) {
	id := s.start(t, "i-conf-start")
	s.expect(t, id, driver.Running)
	ids, err := s.Driver.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(ids, id) {
		t.Errorf("List() = %v, want it to contain %s", ids, id)
	}
}

func (s Subject) startIsIdempotent(t *testing.T) {
	id := s.start(t, "i-conf-twice")
	s.expect(t, id, driver.Running)
	if err := s.Driver.Start(t.Context(), s.Machine(t, id)); err != nil {
		t.Fatalf("second Start: %v", err)
	}
	s.expect(t, id, driver.Running)
}

func (s Subject) stopAndRestart(t *testing.T) {
	id := s.start(t, "i-conf-stop")
	s.expect(t, id, driver.Running)
	for range 2 {
		if err := s.Driver.Stop(t.Context(), id); err != nil {
			t.Fatalf("Stop: %v", err)
		}
	}
	o, err := s.Driver.Observe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if o.Phase != driver.Exited && o.Phase != driver.Absent {
		t.Fatalf("phase after Stop = %s, want Exited or Absent", o.Phase)
	}
	if err := s.Driver.Start(t.Context(), s.Machine(t, id)); err != nil {
		t.Fatalf("Start after Stop: %v", err)
	}
	s.expect(t, id, driver.Running)
}

func (s Subject) removeLeavesNothing(t *testing.T) {
	id := s.start(t, "i-conf-remove")
	for range 2 {
		if err := s.Driver.Remove(t.Context(), id); err != nil {
			t.Fatalf("Remove: %v", err)
		}
	}
	s.expect(t, id, driver.Absent)
	ids, err := s.Driver.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(ids, id) {
		t.Errorf("List() = %v, want it without %s", ids, id)
	}
}

func (s Subject) missingIsFine(t *testing.T) {
	if err := s.Driver.Stop(t.Context(), "i-conf-missing"); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := s.Driver.Remove(t.Context(), "i-conf-missing"); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

func (s Subject) changesAreAnnounced(t *testing.T) {
	id := s.start(t, "i-conf-changes")
	s.expect(t, id, driver.Running)
	for len(s.Driver.Changes()) > 0 {
		<-s.Driver.Changes()
	}
	if err := s.Driver.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	timeout := time.After(s.Patience)
	for {
		select {
		case got := <-s.Driver.Changes():
			if got == id || got == "" {
				return
			}
		case <-timeout:
			t.Fatalf("no change announced within %s after Stop", s.Patience)
		}
	}
}

func (s Subject) imagesAreListed(t *testing.T) {
	images, err := s.Driver.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := s.Machine(t, "i-conf-images").Image
	for _, i := range images {
		if i.Name == want {
			return
		}
	}
	t.Errorf("Images() = %v, want it to contain %s", images, want)
}

// start starts an instance that is removed when the test ends.
func (s Subject) start(t *testing.T, id string) string {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Driver.Remove(context.Background(), id); err != nil {
			t.Errorf("clean up %s: %v", id, err)
		}
	})
	if err := s.Driver.Start(t.Context(), s.Machine(t, id)); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return id
}

// expect waits until the instance has the phase.
func (s Subject) expect(t *testing.T, id string, want driver.Phase) {
	t.Helper()
	deadline := time.Now().Add(s.Patience)
	for {
		if s.Advance != nil {
			s.Advance()
		}
		o, err := s.Driver.Observe(t.Context(), id)
		if err != nil {
			t.Fatalf("Observe: %v", err)
		}
		if o.Phase == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("phase of %s = %s, want %s", id, o.Phase, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
