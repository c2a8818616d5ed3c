package managedresource

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestMetricsCountChangesOfObjects(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newFixture(t, "", map[string]string{"a": configMap("one", "") + configMap("two", "")})
	f.r.Metrics = NewMetrics(registry)
	reconciled := func(what string, counts ...string) {
		t.Helper()
		want := "# HELP hortus_resource_manager_object_changes_total Changes of objects of ManagedResources by result: " +
			"created, updated, corrected, deleted or failed.\n# TYPE hortus_resource_manager_object_changes_total counter\n"
		for _, c := range counts {
			result, n, _ := strings.Cut(c, " ")
			want += "hortus_resource_manager_object_changes_total{result=\"" + result + "\"} " + n + "\n"
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.failWrite = apierrors.NewForbidden(corev1.Resource("configmaps"), "one", errors.New("no"))
	if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: mrKey}); err == nil {
		t.Fatal("a forbidden write is no error")
	}
	reconciled("one of two cannot be created", "created 1", "failed 1")
	f.reconcile()
	f.reconcile() // It changes nothing.
	reconciled("both are there", "created 2", "failed 1")

	one := f.configMap("one")
	one.Data = map[string]string{"a": "of somebody else"}
	if err := f.target.Update(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if err := f.target.Delete(t.Context(), f.configMap("two")); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	reconciled("one was changed, the other one deleted", "corrected 2", "created 2", "failed 1")

	f.setData(map[string]string{"a": configMap("one", ", labels: {a: b}")})
	f.reconcile()
	reconciled("another manifest", "corrected 2", "created 2", "deleted 1", "failed 1", "updated 1")
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
