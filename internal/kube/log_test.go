package kube

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestConditionsAreLoggedWhenTheyTurnBadOrGood: conditions that are only checked again after an operation are not
// logged.
func TestConditionsAreLoggedWhenTheyTurnBadOrGood(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	shoot := func(conditions ...corev1beta1.Condition) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "demo"},
			Status:     corev1beta1.ShootStatus{Conditions: conditions},
		}
	}
	is := func(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus) corev1beta1.Condition {
		return corev1beta1.Condition{Type: kind, Status: status, Reason: "R", Message: "m"}
	}
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	before := shoot(is("A", "True"), is("B", "True"), is("C", "False"), is("D", "False"))
	after := shoot(is("A", "Progressing"), is("B", "False"), is("C", "True"), is("D", "False"),
		is("E", "Unknown"), is("F", "True"))
	LogConditions(log.IntoContext(t.Context(), logger), scheme, after, before)
	line := func(kind, status, was string) string {
		return `"level"=0 "msg"="Condition has changed" "object"="Shoot garden-dev/demo" "condition"="` + kind +
			`" "status"="` + status + `" "before"="` + was + `" "reason"="R" "message"="m"`
	}
	want := []string{line("B", "False", "True"), line("C", "True", "False"), line("E", "Unknown", "")}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines mismatch (-want +got):\n%s", diff)
	}
}
