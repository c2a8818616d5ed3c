package systemd

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/hortus/internal/nodeagent/units"
)

func TestStatusOfProperties(t *testing.T) {
	for name, tc := range map[string]struct {
		properties properties
		want       units.Status
		settled    bool
	}{
		"a service that runs": {
			properties: properties{
				"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "UnitFileState": "enabled",
				"MainPID": uint32(7), "Result": "success", "Job": []any{uint32(0), "/"},
			},
			want:    units.Status{State: units.Active, Enabled: true, PID: 7},
			settled: true,
		},
		"a service that starts": {
			properties: properties{
				"LoadState": "loaded", "ActiveState": "activating", "SubState": "start", "UnitFileState": "disabled",
				"Result": "success", "Job": []any{uint32(12), "/org/freedesktop/systemd1/job/12"},
			},
			want: units.Status{State: units.Activating},
		},
		"a service whose job waits for another": {
			properties: properties{
				"LoadState": "loaded", "ActiveState": "inactive", "Job": []any{uint32(12), "/org/freedesktop/systemd1/job/12"},
			},
			want: units.Status{State: units.Inactive},
		},
		"a service that waits for its restart": {
			properties: properties{
				"LoadState": "loaded", "ActiveState": "activating", "SubState": "auto-restart", "UnitFileState": "enabled",
				"Result": "exit-code", "ExecMainCode": int32(1), "ExecMainStatus": int32(2), "Job": []any{uint32(0), "/"},
			},
			want:    units.Status{State: units.Activating, Enabled: true, Reason: "exit-code (exit status 2)"},
			settled: true,
		},
		"a service that was killed for its memory": {
			properties: properties{
				"LoadState": "loaded", "ActiveState": "failed", "Result": "oom-kill",
				"ExecMainCode": int32(2), "ExecMainStatus": int32(9),
			},
			want:    units.Status{State: units.Failed, Reason: "oom-kill (signal 9)"},
			settled: true,
		},
		"a unit that is not a service and reloads": {
			properties: properties{"LoadState": "loaded", "ActiveState": "reloading", "UnitFileState": "static"},
			want:       units.Status{State: units.Active},
			settled:    true,
		},
		"a unit whose file is invalid": {
			properties: properties{"LoadState": "bad-setting", "ActiveState": "inactive"},
			want:       units.Status{State: units.Inactive, Reason: "unit file is bad-setting"},
			settled:    true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.properties.status()); diff != "" {
				t.Errorf("status mismatch (-want +got):\n%s", diff)
			}
			if got := tc.properties.settled(); got != tc.settled {
				t.Errorf("settled() = %t, want %t", got, tc.settled)
			}
		})
	}
}

func TestUnitsThatExist(t *testing.T) {
	for name, tc := range map[string]struct {
		load, active string
		want         bool
	}{
		"with a file":                     {"loaded", "inactive", true},
		"with a file that cannot be read": {"error", "inactive", true},
		"masked":                          {"masked", "inactive", true},
		"without a file":                  {"not-found", "inactive", false},
		"without a file, but it runs":     {"not-found", "active", true},
		"without a file, and it failed":   {"not-found", "failed", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := properties{"LoadState": tc.load, "ActiveState": tc.active}
			if got := p.exists(); got != tc.want {
				t.Errorf("exists() = %t, want %t", got, tc.want)
			}
		})
	}
}
