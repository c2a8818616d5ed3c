package flow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"
)

const kind = "Thing"

type scope struct {
	skip map[string]string
	mu   sync.Mutex
	ran  []string
	say  map[string]any // Outcome, error, or "panic"; done when absent.
}

func (s *scope) run(name string) (Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, name)
	switch v := s.say[name].(type) {
	case Outcome:
		return v, nil
	case error:
		return Outcome{}, v
	case string:
		panic(v)
	}
	return Done(), nil
}

func TestProgress(t *testing.T) {
	names := func(n int) []string { return make([]string, n) }
	for name, tc := range map[string]struct {
		result Result
		want   int32
	}{
		"nothing is to be done": {Result{Skipped: make([]Skip, 7)}, 100},
		"at the begin":          {Result{Steps: 3, Waiting: make([]Wait, 1), Blocked: names(2)}, 0},
		"skipped steps do not count": {Result{
			Steps: 2, Done: names(1), Waiting: make([]Wait, 1), Skipped: make([]Skip, 98),
		}, 50},
		"one of many is left":                  {Result{Steps: 300, Done: names(299), Waiting: make([]Wait, 1)}, 99},
		"all done except a barrier":            {Result{Steps: 2, Done: names(2), Blocked: names(1)}, 99},
		"only a barrier, which is not reached": {Result{Blocked: names(1)}, 0},
		"all done":                             {Result{Steps: 2, Done: names(2)}, 100},
		"steps done at once do not count":      {Result{Steps: 50, Done: names(41), AtOnce: 40, Blocked: names(9)}, 10},
		"all were done at once except barriers": {Result{
			Steps: 2, Done: names(2), AtOnce: 2, Blocked: names(1)}, 0},
		"an earlier process was halfway": {Result{
			Steps: 50, Done: names(45), AtOnce: 40, Before: 50, Waiting: make([]Wait, 5)}, 75},
		"an earlier process was almost done": {Result{
			Steps: 50, Done: names(40), AtOnce: 40, Before: 99, Waiting: make([]Wait, 10)}, 99},
	} {
		if got := tc.result.Progress(); got != tc.want {
			t.Errorf("%s: Progress() = %d, want %d", name, got, tc.want)
		}
	}
}

func TestBarriersAreNoProgress(t *testing.T) {
	a, c := step("a"), step("c")
	b := step("b", a)
	c.After = []*Step[*scope]{b}
	c.Remove, b.Remove = nil, nil // Nothing is removed before a.
	s := &scope{say: map[string]any{"-a": Waiting(kind, "a goes")}}
	got := Run(t.Context(), Reverse[*scope](nil, a, b, c), s, Options{})
	want := Result{
		Steps: 1, Waiting: []Wait{{Step: "remove-a", Reason: "a goes", Kind: kind}},
		Skipped: []Skip{{"remove-c", "nothing to do"}, {"remove-b", "nothing to do"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Run() mismatch (-want +got):\n%s", diff)
	}
	if got.Progress() != 0 {
		t.Errorf("Progress() = %d, want 0: barriers do not count", got.Progress())
	}
}

func step(name string, after ...*Step[*scope]) *Step[*scope] {
	return &Step[*scope]{
		Name:   name,
		After:  after,
		SkipIf: func(s *scope) string { return s.skip[name] },
		Ensure: func(_ context.Context, s *scope) (Outcome, error) { return s.run(name) },
		Remove: func(_ context.Context, s *scope) (Outcome, error) { return s.run("-" + name) },
	}
}

func TestRun(t *testing.T) {
	a := step("a")
	b := step("b", a)
	c := step("c", b)
	d := step("d", a)
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		scope    *scope
		want     Result
		progress int32
	}{
		"all steps are done": {
			scope:    &scope{},
			want:     Result{Steps: 4, Done: []string{"a", "b", "c", "d"}},
			progress: 100,
		},
		"a waiting step blocks only those after it": {
			scope: &scope{say: map[string]any{"b": Waiting(kind, "b is slow")}},
			want: Result{
				Steps: 4, Done: []string{"a", "d"}, Waiting: []Wait{{Step: "b", Reason: "b is slow", Kind: kind}},
				Blocked: []string{"c"},
			},
			progress: 50,
		},
		"independent branches keep running after a failure": {
			scope:    &scope{say: map[string]any{"b": boom}},
			want:     Result{Steps: 4, Done: []string{"a", "d"}, Failed: []Failure{{"b", boom}}, Blocked: []string{"c"}},
			progress: 50,
		},
		"skipped steps count for order but not for progress": {
			scope: &scope{skip: map[string]string{"b": "no workers"}, say: map[string]any{"d": Waiting(kind, "x")}},
			want: Result{
				Steps: 3, Done: []string{"a", "c"}, Waiting: []Wait{{Step: "d", Reason: "x", Kind: kind}},
				Skipped: []Skip{{"b", "no workers"}},
			},
			progress: 66,
		},
		"a skipped step passes on its dependencies": {
			scope: &scope{skip: map[string]string{"b": "no workers"}, say: map[string]any{"a": Waiting(kind, "x")}},
			want: Result{
				Steps: 3, Waiting: []Wait{{Step: "a", Reason: "x", Kind: kind}}, Blocked: []string{"c", "d"},
				Skipped: []Skip{{"b", "no workers"}},
			},
			progress: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Run(t.Context(), New(a, b, c, d), tc.scope, Options{})
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(x, y error) bool { return errors.Is(x, y) })); diff != "" {
				t.Errorf("Run() mismatch (-want +got):\n%s", diff)
			}
			if got.Progress() != tc.progress {
				t.Errorf("Progress() = %d, want %d", got.Progress(), tc.progress)
			}
		})
	}
}

func TestStepSkippedAtOncePassesNothingOn(t *testing.T) {
	a := step("a")
	b := step("b", a)
	b.SkipAtOnce = true
	c := step("c", b)
	waiting := map[string]any{"a": Waiting(kind, "x")}
	got := Run(t.Context(), New(a, b, c), &scope{skip: map[string]string{"b": "not requested"}, say: waiting}, Options{})
	want := Result{
		Steps: 2, Done: []string{"c"}, Waiting: []Wait{{Step: "a", Reason: "x", Kind: kind}},
		Skipped: []Skip{{"b", "not requested"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	got = Run(t.Context(), New(a, b, c), &scope{say: waiting}, Options{})
	want = Result{Steps: 3, Waiting: []Wait{{Step: "a", Reason: "x", Kind: kind}}, Blocked: []string{"b", "c"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not skipped (-want +got):\n%s", diff)
	}
}

func TestPanicBecomesTheErrorOfItsStep(t *testing.T) {
	a := step("a")
	got := Run(t.Context(), New(a, step("b")), &scope{say: map[string]any{"a": "nil map"}}, Options{})
	if len(got.Failed) != 1 || got.Failed[0].Err.Error() != "panic: nil map" || len(got.Done) != 1 {
		t.Errorf("Run() = %+v, want a failed by its panic and b done", got)
	}
}

func TestNewRefusesSkippingAtOnceWithoutRule(t *testing.T) {
	ruled, unruled := step("a"), step("a")
	ruled.SkipAtOnce, ruled.SkipIf = true, func(*scope) string { return "" }
	unruled.SkipAtOnce, unruled.SkipIf = true, nil
	New(ruled) // Must not panic.
	defer func() {
		if got := recover(); got != `flow: step "a" has SkipAtOnce, but no SkipIf` {
			t.Errorf("panic %v", got)
		}
	}()
	New(unruled)
}

func TestCancelledContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &scope{}
	if got := Run(ctx, New(step("a")), s, Options{}); len(s.ran) != 0 || len(got.Blocked) != 1 {
		t.Errorf("Run() = %+v after running %v, want nothing started", got, s.ran)
	}
}

func TestWaitingBeyondTheLimitFails(t *testing.T) {
	a := step("a")
	a.Limit = time.Minute
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	opts := Options{Clock: clock, Timers: &Timers{}}
	s := &scope{say: map[string]any{"a": Waiting(kind, "a is slow")}}
	run := func(after time.Duration) Result {
		clock.SetTime(clock.Now().Add(after))
		return Run(t.Context(), New(a), s, opts)
	}
	run(0)
	if got := run(time.Minute); len(got.Failed) != 0 {
		t.Errorf("failed at the limit: %v", got.Failed)
	}
	got := run(time.Second)
	if len(got.Failed) != 1 || got.Failed[0].Err.Error() != "still not done after 1m0s: a is slow" {
		t.Errorf("Run() = %+v beyond the limit, want a failure", got)
	}
	s.say = nil
	run(0)
	s.say = map[string]any{"a": WaitingWithCodes(kind, "again", "X")}
	if got := run(time.Hour); len(got.Failed) != 0 {
		t.Errorf("a step that was done before starts with its full limit, got %v", got.Failed)
	}
}

func TestAnOutcomeSetsALimit(t *testing.T) {
	a := step("a")
	a.Limit = time.Minute
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	opts := Options{Clock: clock, Timers: &Timers{}}
	s := &scope{say: map[string]any{"a": WaitingUpTo(time.Hour, kind, "a is slow")}}
	Run(t.Context(), New(a), s, opts)
	clock.SetTime(clock.Now().Add(time.Hour))
	if got := Run(t.Context(), New(a), s, opts); len(got.Failed) != 0 {
		t.Errorf("failed at the limit: %v", got.Failed)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if got := Run(t.Context(), New(a), s, opts); len(got.Failed) != 1 ||
		got.Failed[0].Err.Error() != "still not done after 1h0m0s: a is slow" {
		t.Errorf("Run() = %+v beyond the limit, want a failure", got)
	}
	// The step's own limit counts from then.
	s.say["a"] = Waiting(kind, "a is almost done")
	for _, c := range []struct {
		later  time.Duration
		failed int
	}{{0, 0}, {time.Minute, 0}, {time.Second, 1}} {
		clock.SetTime(clock.Now().Add(c.later))
		if got := Run(t.Context(), New(a), s, opts); len(got.Failed) != c.failed {
			t.Errorf("%s later: failed = %v, want %d", c.later, got.Failed, c.failed)
		}
	}
	// A step that alternates between both does not wait forever.
	s.say["a"] = WaitingUpTo(time.Hour, kind, "a is slow again")
	if got := Run(t.Context(), New(a), s, opts); len(got.Failed) != 1 {
		t.Errorf("Run() = %+v, want a failure", got)
	}
}

func TestDescriptionSaysHowLongWaitsLast(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	opts := Options{Clock: clock, Timers: &Timers{}}
	s := &scope{say: map[string]any{
		"a": WaitingUpTo(48*time.Hour, kind, "A has 0 of 1 machines."),
		"b": WaitingUpTo(48*time.Hour, kind, "A has 0 of 1 machines."),
	}}
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{0, "A has 0 of 1 machines"},
		{59 * time.Second, "A has 0 of 1 machines"},
		{time.Second, "A has 0 of 1 machines (for more than 1m; no change since)"},
		{8 * time.Minute, "A has 0 of 1 machines (for more than 5m; no change since)"},
		{25 * time.Hour, "A has 0 of 1 machines (for more than 24h; no change since)"},
	} {
		clock.SetTime(clock.Now().Add(c.after))
		if got := Run(t.Context(), New(step("a"), step("b")), s, opts).Description(); got != c.want {
			t.Errorf("%s later: Description() = %q, want %q", c.after, got, c.want)
		}
	}
}

func TestDescriptionSaysWhatHappenedLast(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := testclock.NewFakePassiveClock(began)
	opts := Options{Clock: clock, Timers: &Timers{}}
	s := &scope{say: map[string]any{}}
	run := func(after time.Duration, o Outcome) Wait {
		t.Helper()
		clock.SetTime(began.Add(after))
		s.say["a"] = o
		waits := Run(t.Context(), New(step("a")), s, opts).Waiting
		if len(waits) != 1 {
			t.Fatalf("Run() has waits %+v, want one", waits)
		}
		return waits[0]
	}
	run(0, Waiting(kind, "etcd starts").About("etcd"))
	w := run(10*time.Second, Waiting(kind, "etcd restores").About("etcd"))
	if got := w.String(); got != "etcd restores" || w.Long() || w.Object != "etcd" {
		t.Errorf("a short wait = %q about %q, want just its reason", got, w.Object)
	}
	w = run(70*time.Second, Waiting(kind, "etcd restores").About("etcd"))
	want := "etcd restores (for more than 1m; last change at 2026-03-01T12:00:10Z)"
	if got := w.String(); got != want || !w.Long() {
		t.Errorf("a long wait = %q, want %q", got, want)
	}
	w.Last = Event{Text: "BackOff of Pod etcd-0: restarting failed container.", At: began.Add(40 * time.Second)}
	want = "etcd restores (for more than 1m; last event at 2026-03-01T12:00:40Z: " +
		"BackOff of Pod etcd-0: restarting failed container)"
	if got := w.String(); got != want {
		t.Errorf("a long wait with an event = %q, want %q", got, want)
	}
	// A wait with a limit of its own continues the step's wait.
	w = run(80*time.Second, WaitingUpTo(time.Hour, kind, "etcd waits for its image"))
	w = run(150*time.Second, WaitingUpTo(time.Hour, kind, "etcd waits for its image"))
	if want := began.Add(80 * time.Second); !w.Changed.Equal(want) {
		t.Errorf("the reason changed at %s, want %s", w.Changed, want)
	}
}

// Steps that are done when they are reached are no progress; those that had to wait are.
func TestProgressCountsWhatTakesTime(t *testing.T) {
	var all []*Step[*scope]
	s := &scope{say: map[string]any{}}
	for i := range 10 {
		st := step(fmt.Sprintf("s%d", i), all...)
		if i == 4 || i == 8 {
			s.say[st.Name] = Waiting(kind, "waits")
		}
		all = append(all, st)
	}
	timers := &Timers{}
	run := func() int32 {
		opts := Options{Timers: timers, Clock: testclock.NewFakePassiveClock(time.Unix(0, 0))}
		return Run(t.Context(), New(all...), s, opts).Progress()
	}
	var got []int32
	got = append(got, run())
	delete(s.say, "s4")
	got = append(got, run())
	timers = &Timers{Before: got[1]} // Another process.
	got = append(got, run())
	delete(s.say, "s8")
	got = append(got, run())
	// First, six of ten steps are left; then one that took time is done and two of ten are left.
	if want := []int32{0, 33, 33, 100}; !slices.Equal(got, want) {
		t.Errorf("progress = %v, want %v", got, want)
	}
}

func TestReverse(t *testing.T) {
	network := step("network")
	server := step("server", network)
	ready := step("ready", server) // Not listed below: the order of its neighbours stays.
	machines := step("machines", ready)
	addons := step("addons", server)
	want := `remove-addons
remove-machines
remove-server <- remove-addons, remove-machines
remove-network <- remove-server
`
	if diff := cmp.Diff(want, Reverse(nil, network, server, machines, addons).Plan(&scope{})); diff != "" {
		t.Errorf("Plan() mismatch (-want +got):\n%s", diff)
	}
}

func TestNewLooksThroughStepsThatAreNotListed(t *testing.T) {
	a := step("a")
	b := step("b", a)
	c := step("c", b)
	if diff := cmp.Diff("a\nc <- a\n", New(c, a).Plan(&scope{})); diff != "" {
		t.Errorf("Plan() mismatch (-want +got):\n%s", diff)
	}
}

func TestThenPutsGraphsBehindEachOther(t *testing.T) {
	a := step("a")
	b := step("b", a)
	c := step("c")
	want := "a\nb <- a\nremove-c <- b\nremove-a <- b (skipped: kept)\n"
	second := Reverse(func(*scope) string { return "" }, a, c).SkipAll(func(*scope) string { return "" })
	second.nodes[1].skip = func(*scope) string { return "kept" }
	if diff := cmp.Diff(want, New(b, a).Then(second).Plan(&scope{})); diff != "" {
		t.Errorf("Plan() mismatch (-want +got):\n%s", diff)
	}
}

// What comes after a graph waits for all of it, except steps that stand aside.
func TestThenDoesNotWaitForStepsAside(t *testing.T) {
	a := step("a")
	b := step("b", a)
	c := step("c", a)
	c.Aside = true
	alone := step("alone")
	before := step("before")
	side := step("side", before)
	side.Aside = true
	want := "a\nb <- a\nc <- a\nalone\nbefore\nside <- before\nlast <- b, alone, before\n"
	if diff := cmp.Diff(want, New(a, b, c, alone, before, side).Then(New(step("last"))).Plan(&scope{})); diff != "" {
		t.Errorf("Plan() mismatch (-want +got):\n%s", diff)
	}
}

func TestCodes(t *testing.T) {
	err := fmt.Errorf("deploy: %w",
		errors.Join(WithCodes(errors.New("x"), "B", "A"), WithCodes(errors.New("y"), "A"), errors.New("z")))
	if diff := cmp.Diff([]string{"A", "B"}, Codes(err)); diff != "" {
		t.Errorf("Codes() mismatch (-want +got):\n%s", diff)
	}
	if Codes(errors.New("plain")) != nil || WithCodes(nil, "A") != nil {
		t.Error("plain errors have no codes and nil stays nil")
	}
}

// For all graphs and outcomes, a step runs at most once and only after all its dependencies are done or skipped, and
// every step is in exactly one list of the result. Repeated passes, while steps become done one by one, always
// complete; their progress never decreases, and is 100 only at the end.
func TestRunProperties(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var steps []*Step[*scope]
		s := &scope{skip: map[string]string{}, say: map[string]any{}}
		for i := range 1 + rng.IntN(25) {
			st := step(fmt.Sprintf("s%02d", i))
			for _, d := range steps {
				if rng.IntN(4) == 0 {
					st.After = append(st.After, d)
				}
			}
			switch rng.IntN(7) {
			case 0:
				s.skip[st.Name] = "skipped"
			case 3:
				st.Ensure = nil
			case 1:
				s.say[st.Name] = Waiting(kind, "waits")
			case 2:
				s.say[st.Name] = errors.New("fails")
			}
			steps = append(steps, st)
		}
		byName := map[string]*Step[*scope]{}
		for _, st := range steps {
			byName[st.Name] = st
		}
		rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })

		before := int32(0)
		for pass := 0; ; pass++ {
			s.ran = nil
			r := Run(t.Context(), New(steps...), s, Options{})
			if p := r.Progress(); p < before || (p == 100) != r.Complete() {
				t.Fatalf("seed %d: progress %d after %d, complete: %v", seed, p, before, r.Complete())
			}
			before = r.Progress()
			passed := slices.Clone(r.Done)
			for _, k := range r.Skipped {
				passed = append(passed, k.Step)
			}
			if total := len(passed) + len(r.Waiting) + len(r.Failed) + len(r.Blocked); total != len(steps) {
				t.Fatalf("seed %d: %d steps in the result, want %d", seed, total, len(steps))
			}
			for i, name := range s.ran {
				if slices.Contains(s.ran[:i], name) {
					t.Fatalf("seed %d: %s ran twice", seed, name)
				}
				for _, d := range byName[name].After {
					if !slices.Contains(passed, d.Name) {
						t.Fatalf("seed %d: %s ran before %s was done", seed, name, d.Name)
					}
				}
			}
			if r.Complete() {
				break
			}
			if len(r.Waiting)+len(r.Failed) == 0 || pass > len(steps) {
				t.Fatalf("seed %d: stuck after %d passes: %+v", seed, pass, r)
			}
			for _, w := range r.Waiting {
				delete(s.say, w.Step)
			}
			for _, f := range r.Failed {
				delete(s.say, f.Step)
			}
		}
	}
}
