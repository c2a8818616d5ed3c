package project

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestFleetCountsProjects(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	project := func(name string, phase corev1beta1.ProjectPhase, stale *metav1.Time) *corev1beta1.Project {
		return &corev1beta1.Project{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1beta1.ProjectStatus{Phase: phase, StaleSinceTimestamp: stale},
		}
	}
	f := &Fleet{
		Garden: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			project("a", corev1beta1.ProjectReady, nil),
			project("b", corev1beta1.ProjectReady, &metav1.Time{Time: time.Unix(1e9, 0)}),
			project("c", corev1beta1.ProjectFailed, nil)).Build(),
		Elected: make(chan struct{}),
	}
	if n := testutil.CollectAndCount(f); n != 0 {
		t.Errorf("a process that is not elected has %d metrics", n)
	}
	elected := make(chan struct{})
	close(elected)
	f.Elected = elected
	const want = `
# HELP hortus_controller_manager_projects Number of Projects by phase; it is empty before the first reconciliation.
# TYPE hortus_controller_manager_projects gauge
hortus_controller_manager_projects{phase="Failed"} 1
hortus_controller_manager_projects{phase="Ready"} 2
# HELP hortus_controller_manager_stale_projects Number of Projects that nobody uses, which will be deleted.
# TYPE hortus_controller_manager_stale_projects gauge
hortus_controller_manager_stale_projects 1
`
	if err := testutil.CollectAndCompare(f, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(f); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
