package flow

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Result is the outcome of one pass; its lists are in the order of the graph.
type Result struct {
	// Steps is the number of steps that have something to do: neither skipped ones nor barriers.
	Steps int
	Done  []string
	// AtOnce is the number of steps in Done that have never waited or failed; 0 without [Timers].
	AtOnce int
	// Before is the progress that an earlier process had reached; see [Timers].
	Before  int32
	Waiting []Wait
	Failed  []Failure
	// Blocked steps were not run: a step that they depend on waits or has failed.
	Blocked []string
	Skipped []Skip
	// Recheck is how soon a waiting step needs another pass; 0 if watches cover all of them.
	Recheck time.Duration
}

// Wait is a step that has not reached its goal yet.
type Wait struct {
	Step, Reason string
	Kind         Kind
	// Object is the name of the object that the step waits for; "" if it is not a single one.
	Object string
	// For is how long the step has been waiting, for this or an earlier reason; 0 without [Timers].
	For time.Duration
	// Changed is the time at which the reason has become the present one; zero if it has always been.
	Changed time.Time
	// Last is the last event since the wait began, if the caller has found one.
	Last Event
}

// Event is something that has happened to what a step waits for.
type Event struct {
	Text string
	At   time.Time
}

// Long reports whether users see how long the wait has lasted, and what happened last.
func (w Wait) Long() bool { return w.For >= shownWaits[0] }

// shownWaits are the durations of a wait that users see. They are few, since each new text is written to a status.
var shownWaits = []time.Duration{
	time.Minute, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// String is the reason without a full stop; for a long wait also how long it has lasted, and what happened last.
func (w Wait) String() string {
	reason := strings.TrimSuffix(w.Reason, ".")
	for _, shown := range slices.Backward(shownWaits) {
		switch {
		case w.For < shown:
		case shown < time.Hour:
			return fmt.Sprintf("%s (for more than %dm; %s)", reason, shown/time.Minute, w.last())
		default:
			return fmt.Sprintf("%s (for more than %dh; %s)", reason, shown/time.Hour, w.last())
		}
	}
	return reason
}

// last is what happened last: an event, or else the last change of the reason.
func (w Wait) last() string {
	switch {
	case w.Last.Text != "":
		return fmt.Sprintf("last event at %s: %s", w.Last.At.UTC().Format(time.RFC3339), strings.TrimSuffix(w.Last.Text, "."))
	case !w.Changed.IsZero():
		return "last change at " + w.Changed.UTC().Format(time.RFC3339)
	}
	return "no change since"
}

// Skip is a step that does not apply or has nothing to do.
type Skip struct{ Step, Reason string }

// Failure is a step that returned an error, or waited longer than its limit.
type Failure struct {
	Step string
	Err  error
}

// Complete reports whether every step is done or skipped.
func (r Result) Complete() bool {
	return len(r.Waiting) == 0 && len(r.Failed) == 0 && len(r.Blocked) == 0
}

// Progress is the percentage of steps done among those that have something to do, or may have. A step that is done as
// soon as it is reached had nothing to do that takes time: it does not count, so that many such steps do not look like
// a lot of work done. The progress is 100 only when the flow is complete.
func (r Result) Progress() int32 {
	steps := r.Steps - r.AtOnce
	switch {
	case r.Complete():
		return 100
	case steps == 0: // Just barriers, which a cancelled pass has not reached.
		return r.Before
	}
	done := len(r.Done) - r.AtOnce
	return min(r.Before+int32(int(100-r.Before)*done/steps), 99)
}

// Description says in one line for users what the flow is waiting for, or what failed.
func (r Result) Description() string {
	var parts []string
	for _, f := range r.Failed {
		parts = append(parts, f.Step+" failed")
	}
	var reasons []string
	for _, w := range r.Waiting {
		if !slices.Contains(reasons, w.Reason) { // Two steps may wait for the same reason.
			reasons = append(reasons, w.Reason)
			parts = append(parts, w.String())
		}
	}
	return strings.Join(parts, "; ")
}

// Timers records since when each step of one flow has been waiting, so that limits can be enforced across passes, and
// which steps have waited at all. It is safe for concurrent use. The zero value is ready to use.
type Timers struct {
	// Before is the progress of the flow before these timers, such as that of an earlier process.
	Before int32

	mu    sync.Mutex
	since map[wait]waiting
	slow  map[string]bool // Steps that have waited or failed.
}

// waiting is a wait in progress: since when its limit counts, since when its step waits at all, what for, and since
// when for that reason if it is not the first.
type waiting struct {
	since, first time.Time
	flow         string
	kind         Kind
	reason       string
	changed      time.Time
}

// wait is what is timed: a wait with a limit of its own, see [WaitingUpTo], does not count for the step's limit.
type wait struct {
	step     string
	ownLimit bool
}

// waited returns how long the wait with an outcome has lasted at now, counting from the first call, and when its reason
// changed. Before it, the step had waited for some time.
func (t *Timers) waited(
	w wait, flow string, o Outcome, now time.Time, before time.Duration,
) (lasted time.Duration, changed time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = map[wait]waiting{}
	}
	current, ok := t.since[w]
	if !ok {
		current.since, current.first = now, now.Add(-before)
	}
	if current.reason != o.reason && (ok || before > 0) {
		current.changed = now
	}
	current.flow, current.kind, current.reason = flow, o.kind, o.reason
	t.since[w] = current
	return now.Sub(current.since), current.changed
}

// atOnce records the steps of a result that wait or have failed, and counts those done that never did.
func (t *Timers) atOnce(r Result) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slow == nil {
		t.slow = map[string]bool{}
	}
	for _, w := range r.Waiting {
		t.slow[w.Step] = true
	}
	for _, f := range r.Failed {
		t.slow[f.Step] = true
	}
	count := 0
	for _, step := range r.Done {
		if !t.slow[step] {
			count++
		}
	}
	return count
}

// reset drops waits that are over, and returns how long the step has waited at now; 0 if it has not.
func (t *Timers) reset(now time.Time, waits ...wait) (lasted time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range waits {
		if current, ok := t.since[w]; ok {
			lasted = max(lasted, now.Sub(current.first))
			delete(t.since, w)
		}
	}
	return lasted
}

// Options are the inputs of a pass besides the graph and its scope.
type Options struct {
	Clock clock.PassiveClock
	// Timers enforce the steps' limits; with nil no limit is enforced.
	Timers *Timers
	// Transient reports whether an error, such as a conflict, is no failure but a reason to try again; nil means none is.
	Transient func(error) bool
	// Metrics count the pass and its steps under the name Flow; nil counts nothing. They need the Clock.
	Metrics *Metrics
	Flow    string
	// InOrder runs one step after the other, in the order of the graph, so that a pass always makes its requests in the
	// same order.
	InOrder bool
}

// kindRetry is the kind of a wait for the next pass, which repeats a step after a transient error.
const kindRetry Kind = "Retry"

// state of a node within a pass.
type state struct {
	finished chan struct{} // Closed when the fields below are final.
	outcome  Outcome
	waited   time.Duration
	changed  time.Time
	err      error
	skipped  string
	blocked  bool
}

// passable reports whether what comes after the node may start. A skipped node passes on what it waits for itself,
// unless it is skipped at once.
func (s *state) passable() bool {
	return !s.blocked && (s.skipped != "" || (s.err == nil && s.outcome.done))
}

// Run makes one pass. Each step starts as soon as all its dependencies are done or skipped, unless the steps are to run
// in order; a step that waits or fails holds back only its dependents. A panic in a step becomes its error. When ctx
// ends, no further step starts.
func Run[S any](ctx context.Context, g *Graph[S], scope S, opts Options) Result {
	ended := opts.began()
	states := make(map[*node[S]]*state, len(g.nodes))
	for _, n := range g.nodes {
		states[n] = &state{finished: make(chan struct{})}
	}
	var wg sync.WaitGroup
	start := wg.Go
	if opts.InOrder {
		start = func(run func()) { run() } // Dependencies come first in the graph, so none is waited for.
	}
	for _, n := range g.nodes {
		start(func() {
			st := states[n]
			defer close(st.finished)
			if n.atOnce {
				if st.skipped = n.skip(scope); st.skipped != "" {
					return
				}
			}
			for _, d := range n.after {
				<-states[d].finished
				st.blocked = st.blocked || !states[d].passable()
			}
			if n.skip != nil {
				st.skipped = n.skip(scope)
			}
			st.blocked = st.blocked || ctx.Err() != nil
			began, ran := opts.now(), st.skipped == "" && !st.blocked
			if ran {
				st.outcome, st.err = call(ctx, n, scope)
				if st.err != nil && opts.Transient != nil && opts.Transient(st.err) {
					st.outcome, st.err = Waiting(kindRetry, st.err.Error()), nil
				}
			}
			took := opts.now().Sub(began)
			waited := st.limit(n.name, n.limit, opts)
			if ran && n.run != nil {
				opts.ran(n.name, st, took, waited)
			}
		})
	}
	wg.Wait()

	var r Result
	for _, n := range g.nodes {
		r.add(n.name, n.recheck, states[n], n.run == nil)
	}
	if opts.Timers != nil {
		r.AtOnce, r.Before = opts.Timers.atOnce(r), opts.Timers.Before
	}
	ended(r)
	return r
}

// limit turns a wait that has lasted too long into an error. It returns how long a wait has lasted that is over; 0 if
// there was none.
func (s *state) limit(name string, limit time.Duration, opts Options) (over time.Duration) {
	if opts.Timers == nil {
		return 0
	}
	now := opts.Clock.Now()
	if s.blocked || s.err != nil || s.outcome.reason == "" {
		return opts.Timers.reset(now, wait{name, false}, wait{name, true})
	}
	w := wait{name, s.outcome.limit != 0}
	var before time.Duration
	if w.ownLimit { // It may alternate with other waits, and counts from its first occurrence.
		before = opts.Timers.reset(now, wait{name, false})
	}
	limit = cmp.Or(s.outcome.limit, limit, DefaultLimit)
	s.waited, s.changed = opts.Timers.waited(w, opts.Flow, s.outcome, now, before)
	if s.waited > limit {
		s.err = WithCodes(fmt.Errorf("still not done after %s: %s", limit, s.outcome.reason), s.outcome.codes...)
	}
	return 0
}

func (r *Result) add(name string, recheck time.Duration, s *state, barrier bool) {
	if s.skipped == "" && barrier && !s.blocked {
		s.skipped = "nothing to do"
	}
	if s.skipped != "" {
		r.Skipped = append(r.Skipped, Skip{name, s.skipped})
		return
	}
	if !barrier {
		r.Steps++
	}
	switch {
	case s.blocked:
		r.Blocked = append(r.Blocked, name)
	case s.err != nil:
		r.Failed = append(r.Failed, Failure{name, s.err})
	case s.outcome.done:
		r.Done = append(r.Done, name)
	default:
		r.Waiting = append(r.Waiting, Wait{
			Step: name, Reason: s.outcome.reason, Kind: s.outcome.kind, Object: s.outcome.object, For: s.waited,
			Changed: s.changed,
		})
		if recheck > 0 && (r.Recheck == 0 || recheck < r.Recheck) {
			r.Recheck = recheck
		}
	}
}

// call runs the step. Steps are many and made by many hands: a panic in one must not take the others' Shoots down.
func call[S any](ctx context.Context, n *node[S], scope S) (o Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(nil, "Step panicked", "step", n.name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if n.run == nil {
		return Done(), nil
	}
	o, err = n.run(ctx, scope)
	if err == nil && !o.done && o.reason == "" {
		panic("step returned neither an outcome nor an error")
	}
	return o, err
}
