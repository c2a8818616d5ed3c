package shoot

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// What was found before an operation says nothing about its result, so care looks again. Only trouble stays until it is over.
func TestFindingsFromBeforeAnOperation(t *testing.T) {
	const (
		reconcile = corev1beta1.LastOperationTypeReconcile
		migrate   = corev1beta1.LastOperationTypeMigrate
		remove    = corev1beta1.LastOperationTypeDelete

		nodes, extension = corev1beta1.ShootEveryNodeReady, corev1beta1.ConditionType("OfAnExtension")
		hibernation      = corev1beta1.ShootHibernationPossible
		migration        = corev1beta1.ShootReadyForMigration
	)
	earlier := metav1.Time{Time: now.Add(-time.Hour)}
	for name, tc := range map[string]struct {
		operation    corev1beta1.LastOperationType
		kind         corev1beta1.ConditionType
		status, want corev1beta1.ConditionStatus
	}{
		"True":                              {reconcile, nodes, "True", "Progressing"},
		"Unknown":                           {reconcile, nodes, "Unknown", "Progressing"},
		"Progressing":                       {reconcile, nodes, "Progressing", "Progressing"},
		"False":                             {reconcile, nodes, "False", "False"},
		"a constraint that is True":         {reconcile, hibernation, "True", "Progressing"},
		"a constraint that is False":        {reconcile, hibernation, "False", "False"},
		"a condition that others judge":     {reconcile, extension, "True", "True"},
		"a constraint that others judge":    {reconcile, migration, "Unknown", "Unknown"},
		"after the preparation of a move":   {migrate, nodes, "True", "True"},
		"after a deletion":                  {remove, nodes, "True", "True"},
		"after a creation":                  {corev1beta1.LastOperationTypeCreate, nodes, "True", "Progressing"},
		"after the end of a move elsewhere": {corev1beta1.LastOperationTypeRestore, nodes, "True", "Progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			s.Status.LastOperation = &corev1beta1.LastOperation{Type: tc.operation, State: corev1beta1.LastOperationStateProcessing}
			c := corev1beta1.Condition{
				Type: tc.kind, Status: tc.status, Reason: "Found", Message: "text", LastTransitionTime: earlier, LastUpdateTime: earlier,
			}
			s.Status.Conditions, s.Status.Constraints = []corev1beta1.Condition{c}, []corev1beta1.Condition{c}
			succeed(s, tc.operation, now)
			c.Status = tc.want
			if tc.status != tc.want {
				c.LastTransitionTime, c.LastUpdateTime = metav1.Time{Time: now}, metav1.Time{Time: now}
			}
			want := []corev1beta1.Condition{c, c}
			if diff := cmp.Diff(want, slices.Concat(s.Status.Conditions, s.Status.Constraints)); diff != "" {
				t.Errorf("condition and constraint (-want +got):\n%s", diff)
			}
		})
	}
}
