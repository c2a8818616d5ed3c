package flow

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	testclock "k8s.io/utils/clock/testing"
)

func TestMetricsCountPassesStepsAndWaits(t *testing.T) {
	a := step("a")
	barrier := &Step[*scope]{Name: "barrier"}
	b, c, d := step("b", a, barrier), step("c"), step("d")
	clock := testclock.NewFakePassiveClock(time.Unix(1000, 0))
	// Two operations share the metrics.
	first, second := &Timers{}, &Timers{}
	m := NewMetrics(func() []*Timers { return []*Timers{first, second} })
	pass := func(timers *Timers, say map[string]any) {
		s := &scope{skip: map[string]string{"d": "not wanted"}, say: say}
		Run(t.Context(), New(a, barrier, b, c, d), s, Options{Clock: clock, Timers: timers, Metrics: m, Flow: "create"})
	}
	pass(first, map[string]any{"a": Waiting("Deployment", "Deployment x is not ready"), "c": errors.New("boom")})
	clock.SetTime(time.Unix(1020, 0))
	pass(second, map[string]any{"a": Waiting("Deployment", "Deployment y is not ready")})
	clock.SetTime(time.Unix(1030, 0))
	pass(first, map[string]any{"a": WaitingUpTo(time.Hour, "Secret", "Secret z is missing")})
	// A step that waits for another reason by now has waited since the beginning.
	check(t, m, `
# HELP hortus_flow_oldest_wait_start_timestamp_seconds Start of the longest current wait.
# TYPE hortus_flow_oldest_wait_start_timestamp_seconds gauge
hortus_flow_oldest_wait_start_timestamp_seconds{flow="create",kind="Deployment",step="a"} 1020
hortus_flow_oldest_wait_start_timestamp_seconds{flow="create",kind="Secret",step="a"} 1000
# HELP hortus_flow_step_runs_total Runs of steps by result: done, waiting or failed.
# TYPE hortus_flow_step_runs_total counter
hortus_flow_step_runs_total{flow="create",result="done",step="c"} 2
hortus_flow_step_runs_total{flow="create",result="failed",step="c"} 1
hortus_flow_step_runs_total{flow="create",result="waiting",step="a"} 3
# HELP hortus_flow_waiting_steps Number of steps that wait, by what kind of thing they wait for.
# TYPE hortus_flow_waiting_steps gauge
hortus_flow_waiting_steps{flow="create",kind="Deployment",step="a"} 1
hortus_flow_waiting_steps{flow="create",kind="Secret",step="a"} 1
`, "hortus_flow_oldest_wait_start_timestamp_seconds", "hortus_flow_step_runs_total", "hortus_flow_waiting_steps")

	clock.SetTime(time.Unix(1090, 0))
	pass(first, nil)
	pass(second, nil)
	check(t, m, `
# HELP hortus_flow_running_passes Number of passes that run now.
# TYPE hortus_flow_running_passes gauge
hortus_flow_running_passes{flow="create"} 0
# HELP hortus_flow_step_wait_duration_seconds How long steps had waited when they became done.
# TYPE hortus_flow_step_wait_duration_seconds histogram
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="1"} 0
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="5"} 0
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="15"} 0
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="60"} 0
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="180"} 2
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="600"} 2
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="3600"} 2
hortus_flow_step_wait_duration_seconds_bucket{flow="create",step="a",le="+Inf"} 2
hortus_flow_step_wait_duration_seconds_sum{flow="create",step="a"} 160
hortus_flow_step_wait_duration_seconds_count{flow="create",step="a"} 2
`, "hortus_flow_running_passes", "hortus_flow_step_wait_duration_seconds", "hortus_flow_waiting_steps")
	if n := testutil.CollectAndCount(m, "hortus_flow_pass_duration_seconds"); n != 3 {
		t.Errorf("passes have %d results, want 3: complete, waiting and failed", n)
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func check(t *testing.T, m *Metrics, want string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
