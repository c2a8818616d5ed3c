package v1beta1

import "testing"

func TestEnabledByDefault(t *testing.T) {
	shoot, seed := []ClusterType{ClusterTypeShoot}, []ClusterType{ClusterTypeSeed}
	yes, no := true, false
	for name, tc := range map[string]struct {
		resource      ControllerResource
		shoots, seeds bool
	}{
		"neither spelling":           {},
		"for Shoots":                 {resource: ControllerResource{AutoEnable: shoot}, shoots: true},
		"for Seeds":                  {resource: ControllerResource{AutoEnable: seed}, seeds: true},
		"for Shoots, older spelling": {resource: ControllerResource{GloballyEnabled: &yes}, shoots: true},
		"older spelling says no":     {resource: ControllerResource{GloballyEnabled: &no}},
		"newer spelling applies":     {resource: ControllerResource{GloballyEnabled: &yes, AutoEnable: seed}, seeds: true},
		"newer spelling applies, older says no": {
			resource: ControllerResource{GloballyEnabled: &no, AutoEnable: shoot}, shoots: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.resource.EnabledByDefault(ClusterTypeShoot); got != tc.shoots {
				t.Errorf("EnabledByDefault(shoot) = %t", got)
			}
			if got := tc.resource.EnabledByDefault(ClusterTypeSeed); got != tc.seeds {
				t.Errorf("EnabledByDefault(seed) = %t", got)
			}
		})
	}
}
