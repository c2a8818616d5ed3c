package test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// pointsVariable is the environment variable that selects the writes of a move that have a fault. Without it, one in
// sample of the different writes is the last one of a process, and one in sample fails. With "each", each write has a
// fault, in one move after the other. With any other value faults are far from each other: one in apart per move, in as
// many moves, until every write has had a fault; then moves are also cancelled at each write. Otherwise moves are
// cancelled in the middle.
//
//	HORTUS_TEST_POINTS=each go test -tags grpcnotrace -v -timeout 120m -run StopAfterEveryWrite \
//	  ./internal/gardenlet/shoot/test
//
// Two numbers separated by a slash select a part: 2/4 is the second of four parts.
const (
	pointsVariable = "HORTUS_TEST_POINTS"
	sample         = 8
	apart          = 24
)

// A control plane moves without losses wherever one of the two gardenlets stops, and whichever write fails. In one move
// every different write is the last one of a process, in one every write fails at first, and moves are cancelled.
func TestMoveSurvivesAStopAfterEveryWrite(t *testing.T) {
	t.Parallel()
	m := newMoved(t)
	count := m.survives(m.move)
	for _, n := range points(count.handedOver) {
		m.logged(fmt.Sprintf("cancelled at write %d", n), newFault(n, 0), m.callOff)
	}
}

// A control plane is taken over from a lost seed wherever the gardenlet of the other seed stops, and whichever write
// fails. When the lost seed comes back, it cleans up, wherever its gardenlet stops.
func TestTakeOverSurvivesAStopAfterEveryWrite(t *testing.T) {
	t.Parallel()
	m := newMoved(t)
	m.survives(m.takeFromDead)
}

// survives runs an operation without faults, whose writes it returns, and with faults.
func (m *moved) survives(run func()) *fault {
	m.t.Helper()
	m.report("created")
	count := newFault(0, 0)
	m.logged("undisturbed", count, run)
	every, first := sample, []int{1}
	switch os.Getenv(pointsVariable) {
	case "":
	case "each":
		every = 1
	default:
		every, first = apart, points(apart)
	}
	for _, n := range first {
		m.logged(fmt.Sprintf("one write in %d from number %d is the last one of a process", every,
			n), newFault(n, every), run)
		m.logged(fmt.Sprintf("one write in %d from number %d fails", every, n), newFault(n, every).failing(), run)
	}
	return count
}

// newFault returns a fault that stops processes, see fault.
func newFault(first, every int) *fault {
	return &fault{first: first, every: every, stop: true, writes: map[bool]int{}, seen: map[string]bool{}}
}

// failing is the fault that makes writes fail instead.
func (f *fault) failing() *fault {
	f.stop = false
	return f
}

// points selects writes out of n: the one in the middle, all, or those of one part.
func points(n int) []int {
	part, parts := 0, 1
	switch all := os.Getenv(pointsVariable); all {
	case "", "each":
		return []int{max(n/2, 1)}
	default:
		_, _ = fmt.Sscanf(all, "%d/%d", &part, &parts)
		part %= parts
	}
	var out []int
	for i := 1; i <= n; i++ {
		if i%parts == part {
			out = append(out, i)
		}
	}
	return out
}

// logged runs a move with a fault, and ends the test if anything was lost.
func (m *moved) logged(name string, f *fault, run func()) {
	m.t.Helper()
	m.read()
	m.restart()
	m.fault = f
	began := time.Now()
	run()
	m.t.Logf("%s: %d faults, the last at %q; %d different writes, %d of the source, %d of the destination, %s",
		name, f.hits, f.hit, len(f.seen), f.writes[true], f.writes[false], time.Since(began).Round(time.Millisecond))
	m.report(name)
}

// move moves the control plane to the other seed.
func (m *moved) move() {
	m.t.Helper()
	had := m.seeds[m.at].persistent(m.shoot)
	m.bind(1-m.at, nil)
	m.until(corev1beta1.LastOperationTypeRestore, 1-m.at)
	m.arrived(1-m.at, had)
}

// callOff begins a move, and cancels it when the fault has happened, unless the control plane has been handed over by
// then.
func (m *moved) callOff() {
	m.t.Helper()
	to, source := 1-m.at, m.seeds[m.at].seed.Name
	had := m.seeds[m.at].persistent(m.shoot)
	m.bind(to, nil)
	for range maxTurns {
		if m.fault.hits > 0 || len(m.problems) > 0 || m.unfinished(corev1beta1.LastOperationTypeRestore, to, nil) == "" {
			break
		}
		m.turn()
	}
	if ptr.Deref(m.shoot.Status.SeedName, "") == source {
		to = m.at
		m.bind(to, nil)
	}
	m.until("", to)
	m.arrived(to, had)
}

// takeFromDead has the other seed take the control plane over from a lost one, which comes back then.
func (m *moved) takeFromDead() {
	m.t.Helper()
	dead := m.seeds[m.at]
	had := dead.persistent(m.shoot)
	m.takeOver = true
	m.bind(1-m.at, map[string]string{corev1beta1.AnnotationSourceIsDead: dead.seed.Name})
	m.until(corev1beta1.LastOperationTypeRestore, 1-m.at, dead)
	m.until(corev1beta1.LastOperationTypeRestore, 1-m.at)
	m.takeOver = false
	m.arrived(1-m.at, had)
}

// arrived checks that everything is on the seed, and stays there.
func (m *moved) arrived(at int, had map[string]map[string]string) {
	m.t.Helper()
	m.at = at
	if len(m.problems) > 0 {
		return
	}
	m.fault.first = 0
	m.turn()
	m.verify(at, had)
}

// report ends the test if something was lost: later results would be meaningless.
func (m *moved) report(name string) {
	m.t.Helper()
	for _, p := range slices.Sorted(slices.Values(m.problems)) {
		m.t.Errorf("%s, at %q: %s", name, m.fault.hit, p)
	}
	if len(m.problems) > 0 {
		m.t.FailNow()
	}
}
