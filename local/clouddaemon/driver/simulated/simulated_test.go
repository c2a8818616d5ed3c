package simulated_test

import (
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/driver/conformance"
	"hortus.dev/hortus/local/clouddaemon/driver/simulated"
)

func testMachine(_ *testing.T, id string) driver.Machine {
	return driver.Machine{ID: id, Image: "hortus.dev/machine:1.0.0"}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Subject{
		Driver:   simulated.New(simulated.Options{Clock: clock.RealClock{}}),
		Machine:  testMachine,
		Patience: 5 * time.Second,
	})
}

func TestConformanceWithBootDelay(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	conformance.Run(t, conformance.Subject{
		Driver:   simulated.New(simulated.Options{Clock: c, BootDelay: time.Minute}),
		Machine:  testMachine,
		Advance:  func() { c.Step(time.Minute) },
		Patience: 5 * time.Second,
	})
}

func TestBootWaitsForTheDelay(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	d := simulated.New(simulated.Options{Clock: c, BootDelay: time.Minute, Running: []string{"i-old"}})
	if err := d.Start(t.Context(), testMachine(t, "i-new")); err != nil {
		t.Fatal(err)
	}
	defer d.Stop(t.Context(), "i-new") //nolint:errcheck // It cannot fail.
	c.Step(59 * time.Second)
	for id, want := range map[string]driver.Phase{"i-new": driver.Starting, "i-old": driver.Running} {
		o, err := d.Observe(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if o.Phase != want {
			t.Errorf("phase of %s = %s, want %s", id, o.Phase, want)
		}
	}
}
