package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fakeSite is a landscape whose every action takes a known time.
type fakeSite struct {
	mu     sync.Mutex // Guards clock: a Node and the success are awaited concurrently.
	clock  time.Time
	shoots []string
	log    []string
	fail   string // The action that fails.
}

func (s *fakeSite) act(action string, took time.Duration) error {
	s.log = append(s.log, action)
	s.pass(took)
	if action == s.fail {
		return errors.New("as told")
	}
	return nil
}

func (s *fakeSite) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

func (s *fakeSite) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *fakeSite) Up(_ context.Context, out io.Writer) error {
	fmt.Fprint(out,
		"  ... images are built\n  done: components are built (0s)\n  done: images are built (2.5s)\n\nThe landscape is up after 40s. Next:\n")
	return s.act("up", 40*time.Second)
}

func (s *fakeSite) Down(context.Context, io.Writer) error { return s.act("down", time.Second) }

func (s *fakeSite) CreateShoot(_ context.Context, name string) error {
	s.shoots = append(s.shoots, name)
	return s.act("create "+name, 0)
}

func (s *fakeSite) AwaitSucceeded(_ context.Context, name string) error {
	return s.act("await "+name, 15*time.Second)
}

func (s *fakeSite) AwaitNode(context.Context, string) error { return nil }

// Move takes a minute.
func (s *fakeSite) Move(_ context.Context, name string) (MoveTimes, error) {
	return MoveTimes{Shoot: name, From: "a", To: "b", Seconds: 60, GapSeconds: 9, Writes: 100},
		s.act("move "+name, time.Minute)
}

func (s *fakeSite) PatchShoot(_ context.Context, name, patch string) error {
	if !json.Valid([]byte(patch)) {
		return fmt.Errorf("no JSON: %s", patch)
	}
	return s.act("patch "+name, time.Second)
}

func (s *fakeSite) DeleteShoot(_ context.Context, name string) error {
	if !slices.Contains(s.shoots, name) {
		return nil
	}
	s.shoots = slices.DeleteFunc(s.shoots, func(other string) bool { return other == name })
	return s.act("delete "+name, 10*time.Second)
}

// Look returns managers that use 50 MiB, with 10 more per Shoot, and per Shoot 1% of a core and one written byte per
// second.
func (s *fakeSite) Look(context.Context) (*ground, []process, error) {
	n := len(s.shoots)
	processes := []process{{
		pid: 1, instance: "i-1", pod: "gardenlet", proportional: int64(50+10*n) << 20,
		cpu:     time.Duration(s.now().Unix()) * time.Second * time.Duration(n) / 100,
		written: s.now().Unix() * int64(n),
	}}
	for i := range n {
		processes = append(processes, process{
			pid: 10 + i, instance: "i-2", pod: "cp", command: "kube-apiserver", proportional: 300 << 20,
		})
	}
	return newGround(), processes, nil
}

func (s *fakeSite) options(shoots int) LandscapeOptions {
	return LandscapeOptions{
		Fresh: true, Shoots: shoots, Settle: 30 * time.Second, Period: time.Minute, Progress: func(string, ...any) {},
		now:   s.now,
		sleep: func(_ context.Context, d time.Duration) error { s.pass(d); return nil },
	}
}

func TestLandscapeIsMeasuredAndLeftAsItWas(t *testing.T) {
	s := &fakeSite{shoots: []string{"bench-2"}} // Of an earlier run.
	report, err := Landscape(t.Context(), s, s.options(2))
	if err != nil {
		t.Fatal(err)
	}
	wantLog := []string{
		"down", "up", "delete bench-2", "create bench-1", "await bench-1", "create bench-2", "await bench-2",
		"move bench-1", "move bench-1", "patch bench-1", "await bench-1", "patch bench-1", "await bench-1", "patch bench-1",
		"await bench-1", "patch bench-1", "await bench-1", "delete bench-1", "delete bench-2",
	}
	if diff := cmp.Diff(wantLog, s.log); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	want := &LandscapeReport{
		Fresh: true, UpSeconds: 40, UpSteps: []Step{{"components are built", 0}, {"images are built", 2.5}},
		Shoots: []ShootTimes{
			{Name: "bench-1", SucceededSeconds: 15, DeletedSeconds: 10},
			{Name: "bench-2", SucceededSeconds: 15, DeletedSeconds: 10},
		},
		Moves: []MoveTimes{
			{Shoot: "bench-1", From: "a", To: "b", Seconds: 60, GapSeconds: 9, Writes: 100},
			{Shoot: "bench-1", From: "a", To: "b", Seconds: 60, GapSeconds: 9, Writes: 100},
		},
		Changes: []ChangeTimes{
			{"hibernation", 16}, {"wake-up", 16}, {"second pool of one node", 16},
			{"update of the second pool's node in place", 16},
		},
		Classes: []ClassUse{
			{Class: ClassControlPlanes, WithShoots: 600 << 20, PerShoot: 300 << 20},
			{Class: ClassBackups},
			{Class: ClassMachines},
			{Class: ClassManagers, WithoutShoots: 50 << 20, WithShoots: 70 << 20, PerShoot: 10 << 20, IdleMilliCPUWith: 20,
				IdleMilliCPUShoot: 10, IdleWrittenShoot: 3600},
			{Class: ClassGardenAPI}, {Class: ClassSeeds}, {Class: ClassHost},
		},
		Programs:           []ProgramUse{{Program: "kube-apiserver", Processes: 1, Bytes: 300 << 20}},
		TotalWithoutShoots: 50 << 20, TotalWithShoots: 670 << 20, PeriodSeconds: 60,
	}
	// The Node and the success are awaited concurrently, so the time of the Node is not deterministic here.
	ignore := []cmp.Option{
		cmpopts.IgnoreFields(LandscapeReport{}, "Host"), cmpopts.IgnoreFields(ShootTimes{}, "NodeReadySeconds"),
	}
	if diff := cmp.Diff(want, report, ignore...); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestShootsOfAFailedBenchAreDeleted(t *testing.T) {
	s := &fakeSite{fail: "await bench-2"}
	if _, err := Landscape(t.Context(), s, s.options(3)); err == nil {
		t.Error("a Shoot that fails is no error")
	}
	if len(s.shoots) != 0 {
		t.Errorf("left behind: %v", s.shoots)
	}
}

func TestSuccessCountsForTheNewestSpecOnly(t *testing.T) {
	var s shootState
	s.Metadata.Generation, s.Status.ObservedGeneration, s.Status.LastOperation.State = 2, 1, "Succeeded"
	if s.succeeded() {
		t.Error("success of an older spec counts")
	}
	s.Status.ObservedGeneration = 2
	if !s.succeeded() {
		t.Error("success does not count")
	}
}
