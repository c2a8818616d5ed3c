package v1beta1

import (
	"strings"
	"testing"
)

func TestFailureToleranceIsKept(t *testing.T) {
	with := func(tolerance FailureToleranceType, zones ...string) *ControlPlane {
		c := &ControlPlane{Zones: zones}
		if tolerance != "" {
			c.HighAvailability = &HighAvailability{FailureTolerance: FailureTolerance{Type: tolerance}}
		}
		return c
	}
	for name, tc := range map[string]struct {
		old, now *ControlPlane
		want     string // Part of the error; empty for none.
	}{
		"switched on":              {now: with(FailureToleranceTypeNode)},
		"switched on, zones added": {old: with("", "a"), now: with(FailureToleranceTypeZone, "a", "b", "c")},
		"unchanged":                {old: with(FailureToleranceTypeNode), now: with(FailureToleranceTypeNode)},
		"switched off": {
			old:  with(FailureToleranceTypeNode),
			want: "spec.controlPlane.highAvailability.failureTolerance.type: Invalid value: \"\": field is immutable once it is set",
		},
		"another kind": {
			old: with(FailureToleranceTypeNode), now: with(FailureToleranceTypeZone), want: "field is immutable once it is set",
		},
		"switched on, another zone": {
			old: with("", "a"), now: with(FailureToleranceTypeZone, "b", "c", "d"), want: "spec.controlPlane.zones",
		},
		"zones taken away": {
			old: with(FailureToleranceTypeZone, "a", "b", "c"), now: with(FailureToleranceTypeZone),
			want: "spec.controlPlane.zones",
		},
		"zones without high tolerance": {old: with("", "a"), now: with("", "a", "b", "c"), want: "spec.controlPlane.zones"},
	} {
		t.Run(name, func(t *testing.T) {
			old, shoot := &Shoot{Spec: ShootSpec{ControlPlane: tc.old}}, &Shoot{Spec: ShootSpec{ControlPlane: tc.now}}
			errs := validateControlPlaneUpdate(shoot, old)
			if (len(errs) > 0) != (tc.want != "") || len(errs) > 0 && !strings.Contains(errs.ToAggregate().Error(), tc.want) {
				t.Errorf("validateControlPlaneUpdate() = %v, want %q", errs, tc.want)
			}
		})
	}
}
