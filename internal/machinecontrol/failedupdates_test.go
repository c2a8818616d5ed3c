package machinecontrol

import (
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machinefake "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// TestReplacementOfMachinesWhoseUpdateFailed has a machine "a", whose update in place failed at noon, and another one
// of its pool.
func TestReplacementOfMachinesWhoseUpdateFailed(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const healthTimeout = 5 * time.Minute
	for name, tc := range map[string]struct {
		change   func(a, other *machinev1alpha1.Machine)
		since    time.Duration // After noon.
		replaced bool
		after    time.Duration
	}{
		"not before the timeout of the pool": {since: 2 * time.Minute, after: 3 * time.Minute},
		"after the timeout of the pool":      {since: healthTimeout, replaced: true},
		"without one the general timeout applies": {
			change: func(a, _ *machinev1alpha1.Machine) { a.Spec.MachineHealthTimeout = nil },
			since:  healthTimeout, after: 5 * time.Minute,
		},
		"never if disabled": {
			change: func(a, _ *machinev1alpha1.Machine) { a.Spec.DisableHealthTimeout = ptr.To(true) }, since: time.Hour,
		},
		"not if the update has succeeded later": {
			change: func(a, _ *machinev1alpha1.Machine) { a.Status.CurrentStatus.Phase = machinev1alpha1.MachineRunning },
			since:  time.Hour,
		},
		"not while another is being replaced": {
			change: func(_, other *machinev1alpha1.Machine) {
				other.Status.CurrentStatus.Phase = machinev1alpha1.MachinePending
			},
			since: time.Hour, after: replacementPause,
		},
		"while a machine of another pool is being replaced": {
			change: func(_, other *machinev1alpha1.Machine) {
				other.Labels[labelDeployment] = "md-2"
				other.Status.CurrentStatus.Phase = machinev1alpha1.MachinePending
			},
			since: time.Hour, replaced: true,
		},
		"while the update of another is failing": {
			change: func(_, other *machinev1alpha1.Machine) {
				other.Status.CurrentStatus.Phase = machinev1alpha1.MachineInPlaceUpdateFailed
			},
			since: time.Hour, replaced: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			machine := func(name string, phase machinev1alpha1.MachinePhase) *machinev1alpha1.Machine {
				m := &machinev1alpha1.Machine{}
				m.Namespace, m.Name, m.Labels = "ns", name, map[string]string{labelDeployment: "md"}
				m.Spec.MachineConfiguration = &machinev1alpha1.MachineConfiguration{
					MachineHealthTimeout: &metav1.Duration{Duration: healthTimeout}, DisableHealthTimeout: ptr.To(false),
				}
				m.Status.CurrentStatus = machinev1alpha1.CurrentStatus{Phase: phase, LastUpdateTime: metav1.NewTime(noon)}
				return m
			}
			a := machine("a", machinev1alpha1.MachineInPlaceUpdateFailed)
			other := machine("b", machinev1alpha1.MachineRunning)
			if tc.change != nil {
				tc.change(a, other)
			}
			machines := machinefake.NewSimpleClientset(a, other).MachineV1alpha1().Machines("ns")
			r := newReplacements(machines, 10*time.Minute, clocktesting.NewFakePassiveClock(noon.Add(tc.since)))
			defer r.queue.ShutDown()
			after, err := r.reconcile(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			now, err := machines.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			replaced := now.Status.CurrentStatus.Phase == machinev1alpha1.MachineFailed
			if replaced != tc.replaced || after != tc.after {
				t.Errorf("replaced: %t, checked again after %s; want %t and %s", replaced, after, tc.replaced, tc.after)
			}
		})
	}
}
