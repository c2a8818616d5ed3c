package plan

import (
	"runtime"
	"sort"
	"sync"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/maintenance"
)

// Options are the period of a plan and its jitter.
type Options struct {
	At, Until time.Time
	Jitter    maintenance.Jitter // The maintenance controller's, so that times are exact.
}

// Make simulates all maintenance windows of the Shoots, on all processors. The result has the order of the input.
func Make(in *Input, o Options) *Plan {
	p := &Plan{At: o.At, Until: o.Until, Shoots: make([]ShootPlan, len(in.Shoots))}
	hibernation := newTimelines(o.At, o.Until)
	const batch = 64 // Large enough that taking a batch is cheap, small enough to keep all processors busy.
	var next int
	var mu sync.Mutex
	take := func() (from, to int) {
		mu.Lock()
		defer mu.Unlock()
		from, to = next, min(next+batch, len(in.Shoots))
		next = to
		return from, to
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			deciders := map[profileKey]*maintenance.Decider{}
			for from, to := take(); from < to; from, to = take() {
				for i := from; i < to; i++ {
					p.Shoots[i] = simulate(in, in.Shoots[i], deciders, hibernation, o)
				}
			}
		})
	}
	wg.Wait()
	return p
}

// simulation plays the maintenance windows of one Shoot. Between two windows nothing but time passes: operations that
// are started are taken to have ended well, and nobody edits the Shoot or its profile.
type simulation struct {
	Options
	shoot     *Shoot
	profile   *cloudprofile.Profile
	decider   *maintenance.Decider
	cluster   maintenance.Cluster
	rotations []maintenance.Rotation
	sleep     *timeline              // Nil if the Shoot never hibernates.
	spec      *corev1beta1.ShootSpec // What is left of the spec; only if updates may remove fields.
	shared    []sharedEffects
	plan      *ShootPlan
	awake     time.Time          // The last result of nextAwake.
	open      map[deadEndKey]int // Dead ends that the Shoot is in, by their place in the plan.
}

func simulate(
	in *Input, s *Shoot, deciders map[profileKey]*maintenance.Decider, hibernation *timelines, o Options,
) ShootPlan {
	plan := ShootPlan{
		Namespace:     s.Namespace,
		Name:          s.Name,
		CloudProfile:  s.profile.String(),
		Kubernetes:    s.cluster.Kubernetes,
		EndKubernetes: s.cluster.Kubernetes,
	}
	if s.deleting {
		return plan
	}
	sim := simulation{
		Options: o,
		shoot:   s,
		cluster: s.cluster,
		plan:    &plan,
	}
	profile, err := in.profileOf(s)
	if err != nil {
		plan.DeadEnds = []DeadEnd{{
			Since: sim.firstRun(), Reason: err.Error(), Fix: "create the CloudProfile, or correct the Shoot's reference to it",
		}}
		return plan
	}
	if deciders[s.profile] == nil {
		deciders[s.profile] = maintenance.NewDecider(profile)
	}
	sim.profile, sim.decider = profile, deciders[s.profile]
	if s.hibernation != nil {
		sim.sleep = hibernation.of(s.hibernation)
	}
	sim.rotations = append(sim.rotations, s.rotations...)
	sim.run()
	plan.EndKubernetes = sim.cluster.Kubernetes
	return plan
}

// firstRun is what the controller would do if it started at the begin of the plan: run at once inside the window or
// when requested, unless this window has seen a maintenance already.
func (s *simulation) firstRun() time.Time {
	if s.shoot.requested {
		return s.At
	}
	if s.shoot.window.Contains(s.At) {
		if begin, _ := s.shoot.window.Occurrence(s.At); s.shoot.maintained.Before(begin) {
			return s.At
		}
	}
	return s.nextRun(s.At)
}

// nextRun is when the controller runs next after a run at t.
func (s *simulation) nextRun(t time.Time) time.Time {
	return t.Add(s.shoot.window.UntilNext(t, s.shoot.key, false, s.Jitter))
}

func (s *simulation) run() {
	for t := s.firstRun(); !t.After(s.Until); {
		if s.maintain(t) {
			t = s.nextRun(t)
			continue
		}
		// Nothing changed, so nothing will until a class changes or a rotation becomes due.
		wake, ok := s.nextCause(t)
		if !ok {
			return
		}
		if next := s.nextRun(t); wake.Before(next) {
			t = next
		} else {
			t = s.shoot.window.FirstRunAfter(wake, s.shoot.key, s.Jitter)
		}
	}
}

// nextCause returns the instant strictly after which a maintenance may decide differently from the one at t.
func (s *simulation) nextCause(t time.Time) (wake time.Time, ok bool) {
	consider := func(at time.Time) {
		if !ok || at.Before(wake) {
			wake, ok = at, true
		}
	}
	changes := s.profile.Changes
	if i := sort.Search(len(changes), func(i int) bool { return !changes[i].Before(t) }); i < len(changes) {
		consider(changes[i])
	}
	for i := range s.rotations {
		r := &s.rotations[i]
		switch {
		case r.Busy: // Somebody has to complete it first.
		case !r.Due(t):
			consider(r.DueAfter())
		case s.sleep != nil:
			if run, awake := s.nextAwake(t); awake {
				consider(run.Add(-1)) // Due but asleep: the first window that finds the Shoot awake.
			}
		}
	}
	return wake, ok
}

// nextAwake returns the first run after t that finds the Shoot awake.
func (s *simulation) nextAwake(t time.Time) (time.Time, bool) {
	if t.Before(s.awake) {
		return s.awake, !s.awake.After(s.Until)
	}
	// The sequence of runs does not depend on the start, so the search need not begin at t again.
	run := s.nextRun(t)
	for !run.After(s.Until) && s.sleep.at(run) {
		if !s.sleep.everAwakeAfter(run) {
			run = s.Until.Add(1)
			break
		}
		run = s.nextRun(run)
	}
	s.awake = run
	return run, !run.After(s.Until)
}

// maintain simulates one maintenance and reports whether it changed a version or started a requested operation.
func (s *simulation) maintain(t time.Time) bool {
	begin, end := s.shoot.window.Occurrence(t)
	window := Interval{begin, end}
	asleep := s.sleep != nil && s.sleep.at(t)
	decision := s.decider.Decide(&s.cluster, t)
	changed := decision.Changed()
	var after maintenance.Cluster
	var refusal string
	if changed {
		after = s.cluster.Apply(&decision)
		refusal = s.decider.RefusedBy(&s.cluster, &after)
	}
	s.noteFailures(&decision, refusal, t)
	if refusal != "" {
		return false
	}
	if changed {
		s.noteChanges(&decision, &after, t, window, asleep)
		s.cluster = after
	}
	s.rotate(t, asleep)
	if len(s.plan.Operations) == 0 && len(s.shoot.deferred) > 0 {
		for _, name := range s.shoot.deferred {
			s.plan.Operations = append(s.plan.Operations, Operation{At: t, Window: window, Name: name})
		}
	}
	return changed
}

// rotate starts the rotations that are due and completes them at once.
func (s *simulation) rotate(t time.Time, asleep bool) {
	for i := range s.rotations {
		r := &s.rotations[i]
		if r.Busy || !r.Due(t) || r.Awake && asleep {
			continue
		}
		r.Last = t
		at := -1
		for j := range s.plan.Rotations {
			if s.plan.Rotations[j].Operation == r.Operation {
				at = j
			}
		}
		if at < 0 {
			s.plan.Rotations = append(s.plan.Rotations, Rotations{Operation: r.Operation})
			at = len(s.plan.Rotations) - 1
		}
		s.plan.Rotations[at].Times = append(s.plan.Rotations[at].Times, t)
	}
}
