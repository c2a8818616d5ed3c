package shoot

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
)

// TestFlowsHaveNames: the name identifies the graph.
func TestFlowsHaveNames(t *testing.T) {
	plain := &corev1beta1.Shoot{}
	given := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{corev1beta1.AnnotationConfirmationForceDeletion: "true"},
	}}
	got := []string{
		flowName(corev1beta1.LastOperationTypeCreate, plain), flowName(corev1beta1.LastOperationTypeReconcile, given),
		flowName(corev1beta1.LastOperationTypeDelete, plain), flowName(corev1beta1.LastOperationTypeDelete, given),
	}
	if diff := cmp.Diff([]string{"create", "reconcile", "delete", "force-delete"}, got); diff != "" {
		t.Errorf("flowName() mismatch (-want +got):\n%s", diff)
	}
}

// listed is a cache with these Shoots.
type listed struct {
	client.Reader
	shoots []corev1beta1.Shoot
}

func (l listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1beta1.ShootList).Items = l.shoots
	return nil
}

func TestFleetCountsShootsOfItsSeed(t *testing.T) {
	shoot := func(seed string, state corev1beta1.LastOperationState,
		conditions ...corev1beta1.Condition) corev1beta1.Shoot {
		s := corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{SeedName: &seed}}
		s.Status.SeedName = &seed
		if state != "" {
			s.Status.LastOperation = &corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeReconcile, State: state}
		}
		s.Status.Conditions = conditions
		return s
	}
	healthy := corev1beta1.Condition{Type: corev1beta1.ShootEveryNodeReady, Status: corev1beta1.ConditionTrue}
	elected := make(chan struct{})
	fleet := &Fleet{SeedName: "a", Elected: elected, Shoots: listed{shoots: []corev1beta1.Shoot{
		shoot("a", corev1beta1.LastOperationStateSucceeded, healthy),
		shoot("a", corev1beta1.LastOperationStateSucceeded, healthy, corev1beta1.Condition{Type: "Extra", Status: "True"}),
		shoot("a", corev1beta1.LastOperationStateFailed),
		shoot("a", ""),
		shoot("b", corev1beta1.LastOperationStateFailed),
	}}}
	if n := testutil.CollectAndCount(fleet); n != 0 {
		t.Errorf("a process that is not elected has %d metrics", n)
	}
	close(elected)
	const want = `
# HELP hortus_gardenlet_shoot_conditions Number of Shoots on this seed by condition or constraint and its status.
# TYPE hortus_gardenlet_shoot_conditions gauge
hortus_gardenlet_shoot_conditions{condition="EveryNodeReady",status="True"} 2
# HELP hortus_gardenlet_shoots Number of Shoots on this seed by their last operation and its state.
# TYPE hortus_gardenlet_shoots gauge
hortus_gardenlet_shoots{operation="",state=""} 1
hortus_gardenlet_shoots{operation="Reconcile",state="Failed"} 1
hortus_gardenlet_shoots{operation="Reconcile",state="Succeeded"} 2
`
	if err := testutil.CollectAndCompare(fleet, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestMetricsFollowTheirRules(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, func() []*flow.Timers { return nil })
	m.start(corev1beta1.LastOperationTypeCreate)
	m.retry(corev1beta1.LastOperationTypeCreate)
	m.end(&corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateFailed,
	}, 1)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
