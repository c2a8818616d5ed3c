package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	decision "hortus.dev/hortus/internal/maintenance"
)

func TestMetricsCountChangesByResult(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.maintained(&decision.Outcome{}, false)
	update := decision.Item{Subject: decision.ControlPlane, Cause: decision.CauseAuto}
	m.maintained(&decision.Outcome{Decision: decision.Decision{Items: []decision.Item{update}}}, false)
	m.maintained(&decision.Outcome{Decision: decision.Decision{Items: []decision.Item{update}}}, true)
	impossible := decision.Item{Subject: decision.PoolImage, Cause: decision.CauseExpired, Err: errors.New("no version")}
	m.maintained(&decision.Outcome{
		Decision:    decision.Decision{Items: []decision.Item{update, impossible}},
		Credentials: []decision.Credential{{}}, Operations: []string{"x", "y"},
	}, false)
	m.failed()
	const want = `
# HELP hortus_controller_manager_maintenance_changes_total Changes that were due in maintenances, by kind, cause and result: applied, impossible or refused.
# TYPE hortus_controller_manager_maintenance_changes_total counter
hortus_controller_manager_maintenance_changes_total{cause="auto",kind="ControlPlane",result="applied"} 2
hortus_controller_manager_maintenance_changes_total{cause="auto",kind="ControlPlane",result="refused"} 1
hortus_controller_manager_maintenance_changes_total{cause="expired",kind="PoolImage",result="impossible"} 1
hortus_controller_manager_maintenance_changes_total{cause="period",kind="Credential",result="applied"} 1
hortus_controller_manager_maintenance_changes_total{cause="version",kind="Other",result="applied"} 2
# HELP hortus_controller_manager_maintenances_total Maintenances of Shoots by result: applied, unchanged, incomplete, refused or error.
# TYPE hortus_controller_manager_maintenances_total counter
hortus_controller_manager_maintenances_total{result="applied"} 1
hortus_controller_manager_maintenances_total{result="error"} 1
hortus_controller_manager_maintenances_total{result="incomplete"} 1
hortus_controller_manager_maintenances_total{result="refused"} 1
hortus_controller_manager_maintenances_total{result="unchanged"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// cached counts reads of a garden with one CloudProfile.
type cached struct {
	client.Reader
	shoots []corev1beta1.Shoot
	reads  int
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1beta1.ShootList).Items = c.shoots
	return nil
}

func (c *cached) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	c.reads++
	if key.Name != "local" {
		return errors.New("not found")
	}
	profile := o.(*corev1beta1.CloudProfile)
	profile.Name, profile.ResourceVersion = "local", "1"
	profile.Spec.Kubernetes.Versions = []corev1beta1.ExpirableVersion{{Version: "1.36.3"}, {Version: "1.36.2"}}
	return nil
}

// due returns a fleet of n Shoots on the second newest version, half of which have automatic updates.
func due(n int) (*Due, *cached) {
	garden := &cached{}
	for i := range n {
		shoot := corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i), Namespace: "garden-dev"}}
		shoot.Spec.CloudProfileName = ptr.To("local")
		shoot.Spec.Kubernetes.Version = "1.36.2"
		update := &corev1beta1.MaintenanceAutoUpdate{KubernetesVersion: i%2 == 0}
		shoot.Spec.Maintenance = &corev1beta1.Maintenance{AutoUpdate: update}
		garden.shoots = append(garden.shoots, shoot)
	}
	elected := make(chan struct{})
	close(elected)
	return &Due{
		Garden: garden, Clock: testclock.NewFakePassiveClock(time.Unix(0, 0)), Profiles: &Profiles{}, Elected: elected,
	}, garden
}

func TestDueCountsUpdatesOfAllShoots(t *testing.T) {
	d, garden := due(10)
	garden.shoots[0].Spec.CloudProfileName = ptr.To("unknown")
	garden.shoots[2].DeletionTimestamp = &metav1.Time{}
	const want = `
# HELP hortus_controller_manager_maintenance_due_changes Number of updates of versions that are due in all Shoots, by kind, cause and whether they are possible.
# TYPE hortus_controller_manager_maintenance_due_changes gauge
hortus_controller_manager_maintenance_due_changes{cause="auto",kind="ControlPlane",possible="true"} 3
`
	if err := testutil.CollectAndCompare(d, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if garden.reads != 2 {
		t.Errorf("profiles were read %d times, want once each", garden.reads)
	}
	d.Elected = make(chan struct{})
	if n := testutil.CollectAndCount(d); n != 0 {
		t.Errorf("a process that is not elected has %d metrics", n)
	}
}

// BenchmarkDue measures one scrape of a garden with 10,000 Shoots.
func BenchmarkDue(b *testing.B) {
	d, _ := due(10_000)
	for b.Loop() {
		testutil.CollectAndCount(d)
	}
}
