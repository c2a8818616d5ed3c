//go:build moves

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

// These tests are run by hand, with the build tag moves: what they take on a quiet machine has not been measured yet, and only
// undisturbed runs have ended. On two cores that do nothing else:
//
//	go test -tags grpcnotrace,moves -v -timeout 60m -run StopAfterEveryWrite ./internal/gardenlet/shoot/test
//
// allPoints is the environment variable that makes the tests of this file try every single write of both gardenlets in a move of its
// own, about 440 times each for stops, failing writes and moves that are called off. Otherwise samplePoints are tried of each.
const (
	allPoints    = "HORTUS_TEST_ALL_POINTS"
	samplePoints = 2
)

// A control plane moves without losing anything wherever one of the two gardenlets stops, and whichever write fails. In one move
// every different write is the last one of a process, in one every write fails at first; single writes are tried as allPoints says.
func TestMoveSurvivesAStopAfterEveryWrite(t *testing.T) {
	t.Parallel()
	m := newMoved(t)
	m.report("created")
	count := m.noFault()
	m.logged("undisturbed", count, m.move)
	m.logged("every write is the last one of a process", &fault{stop: true}, m.move)
	m.logged("every write fails at first", &fault{}, m.move)
	for _, source := range []bool{true, false} {
		for _, n := range points(count.writes[source]) {
			m.logged(fmt.Sprintf("write %d, source %v, is the last one", n, source), &fault{source: source, n: n, stop: true}, m.move)
			m.logged(fmt.Sprintf("write %d, source %v, fails", n, source), &fault{source: source, n: n}, m.move)
			if n > count.handedOver[source] {
				continue // It cannot be called off any more.
			}
			m.logged(fmt.Sprintf("called off at write %d, source %v", n, source), &fault{source: source, n: n, stop: true}, m.callOff)
		}
	}
}

// A control plane is taken over from a seed that is gone wherever the gardenlet of the other seed stops, and whichever write fails;
// when the seed comes back, it cleans up, wherever it stops then.
func TestTakeOverSurvivesAStopAfterEveryWrite(t *testing.T) {
	t.Parallel()
	m := newMoved(t)
	m.report("created")
	count := m.noFault()
	m.logged("undisturbed", count, m.takeFromDead)
	m.logged("every write is the last one of a process", &fault{stop: true}, m.takeFromDead)
	m.logged("every write fails at first", &fault{}, m.takeFromDead)
	for _, source := range []bool{true, false} {
		for _, n := range points(count.writes[source]) {
			m.logged(fmt.Sprintf("write %d, source %v, is the last one", n, source), &fault{source: source, n: n, stop: true}, m.takeFromDead)
			m.logged(fmt.Sprintf("write %d, source %v, fails", n, source), &fault{source: source, n: n}, m.takeFromDead)
		}
	}
}

// points of n writes: all, or those in the middle of samplePoints equal parts.
func points(n int) []int {
	var out []int
	for i := 1; i <= n; i++ {
		part := max(n/samplePoints, 1)
		if os.Getenv(allPoints) != "" || i%part == part/2 {
			out = append(out, i)
		}
	}
	return out
}

// logged runs a move with a fault, and ends the test if anything was lost.
func (m *moved) logged(name string, f *fault, run func()) {
	m.t.Helper()
	f.writes, f.seen = map[bool]int{}, map[string]int{}
	m.read()
	m.restart()
	m.fault = f
	began := time.Now()
	run()
	m.t.Logf("%s: %d faults, the last at %q; %d writes of the source, %d of the destination, %s",
		name, f.hits, f.hit, f.writes[true], f.writes[false], time.Since(began).Round(time.Millisecond))
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

// callOff begins a move, and binds the control plane back when the fault has happened, unless it has been handed over by then.
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

// takeFromDead lets the other seed take the control plane over from one that is gone, and then come back.
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

// arrived makes sure that everything is on the seed, and stays there.
func (m *moved) arrived(at int, had map[string]map[string]string) {
	m.t.Helper()
	m.at = at
	if len(m.problems) > 0 {
		return
	}
	m.fault = &fault{n: -1, writes: m.fault.writes, seen: m.fault.seen, hit: m.fault.hit, hits: m.fault.hits}
	m.turn()
	m.verify(at, had)
}

// report ends the test if something was lost: what comes after it would say nothing.
func (m *moved) report(name string) {
	m.t.Helper()
	for _, p := range slices.Sorted(slices.Values(m.problems)) {
		m.t.Errorf("%s, at %q: %s", name, m.fault.hit, p)
	}
	if len(m.problems) > 0 {
		m.t.FailNow()
	}
}
