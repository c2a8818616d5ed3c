package test

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// allPoints is the environment variable that makes the tests of this file try every single write instead of a sample.
const allPoints = "HORTUS_TEST_ALL_POINTS"

// A control plane moves without losing anything wherever one of the two gardenlets stops, and whichever write fails.
func TestMoveSurvivesAStopAfterEveryWrite(t *testing.T) {
	m := newMoved(t)
	m.report("created")
	began := time.Now()
	m.move(m.noFault())
	counted := m.fault
	m.report("undisturbed")
	t.Logf("a move has %d writes of the source and %d of the destination, and takes %s", counted.writes[true], counted.writes[false], time.Since(began))
	for _, stop := range []bool{true, false} {
		began := time.Now()
		f := m.noFault()
		f.n, f.stop = 0, stop
		m.move(f)
		m.report(fmt.Sprintf("every write, stop %v", stop))
		t.Logf("a move with %d faults (stop %v) in %d and %d writes takes %s", f.hits, stop, f.writes[true], f.writes[false], time.Since(began))
	}
	_ = os.Getenv(allPoints)
}

// move moves the control plane to the other seed, while something happens to the gardenlets.
func (m *moved) move(f *fault) {
	m.t.Helper()
	m.read()
	m.restart()
	had := m.seeds[m.at].persistent(m.shoot)
	m.fault = f
	m.bind(1-m.at, nil)
	m.until("Restore", 1-m.at)
	m.fault.n = -1
	m.at = 1 - m.at
	m.verify(m.at, had)
}

// report fails the test if something was lost.
func (m *moved) report(name string) {
	m.t.Helper()
	if len(m.problems) == 0 {
		return
	}
	for _, p := range m.problems {
		m.t.Errorf("%s (%s): %s", name, m.fault.hit, p)
	}
	m.t.FailNow() // What comes after it says nothing.
}
