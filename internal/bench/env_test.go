package bench

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) { env.Main(m, env.WithGardenAPI()) }

func TestAPIMeasuresEveryPhaseAndLeavesNothing(t *testing.T) {
	e := env.Shared(t)
	target := &Target{Config: rest.CopyConfig(e.Config), Measured: rest.CopyConfig(e.Config)}
	report, err := API(t.Context(), target, APIOptions{
		Shoots: []int{12}, Clients: 3, Watchers: 2, Suffix: "api", Usage: processUsage("/proc", os.Getpid()),
		Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, phase := range []string{
		"create", "get", "list", "list in pages", "patch of spec", "patch of status", "event of a patch", "delete",
	} {
		if m := report.Measurements[i]; m.Phase != phase || m.PerSecond <= 0 || m.P50 <= 0 || m.P99 < m.P50 {
			t.Errorf("phase %d is %+v, want figures of %s", i, m, phase)
		}
	}
	if len(report.Memory) != 3 || report.Memory[0].ResidentBytes == 0 {
		t.Errorf("memory is %+v", report.Memory)
	}
	nothingLeft(t, e)
}

func TestSchedulerSpreadsEveryShootAndLeavesNothing(t *testing.T) {
	e := env.Shared(t)
	report, err := Scheduler(t.Context(), &Target{Config: rest.CopyConfig(e.Config)}, SchedulerOptions{
		Shoots: []int{12}, Seeds: 3, Workers: 2, Clients: 3, Suffix: "sch", Progress: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := report.Placements[0]; p.Shoots != 12 || p.Fewest != 4 || p.Most != 4 || p.PerSecond <= 0 {
		t.Errorf("placement is %+v, want 4 of 12 Shoots on each of 3 Seeds", p)
	}
	nothingLeft(t, e)
}

// nothingLeft checks that a bench has removed all objects that it created.
func nothingLeft(t *testing.T, e *env.Environment) {
	t.Helper()
	shoots, projects, profiles, seeds := &corev1beta1.ShootList{}, &corev1beta1.ProjectList{},
		&corev1beta1.CloudProfileList{}, &corev1beta1.SeedList{}
	for _, err := range []error{
		e.Client.List(t.Context(), shoots), e.Client.List(t.Context(), projects), e.Client.List(t.Context(), profiles),
		e.Client.List(t.Context(), seeds),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := []int{
		len(shoots.Items), len(projects.Items), len(profiles.Items), len(seeds.Items),
	}; n[0]+n[1]+n[2]+n[3] != 0 {
		t.Errorf("left behind: %d Shoots, %d Projects, %d CloudProfiles, %d Seeds", n[0], n[1], n[2], n[3])
	}
}
