package shoot

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
)

// Findings from before an operation do not apply to its result, so care checks again. Only problems stay until they are
// solved.
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
		"True":                               {reconcile, nodes, "True", "Progressing"},
		"Unknown":                            {reconcile, nodes, "Unknown", "Progressing"},
		"Progressing":                        {reconcile, nodes, "Progressing", "Progressing"},
		"False":                              {reconcile, nodes, "False", "False"},
		"a constraint that is True":          {reconcile, hibernation, "True", "Progressing"},
		"a constraint that is False":         {reconcile, hibernation, "False", "False"},
		"a condition of another controller":  {reconcile, extension, "True", "True"},
		"a constraint of another controller": {reconcile, migration, "Unknown", "Unknown"},
		"after the preparation of a move":    {migrate, nodes, "True", "True"},
		"after a deletion":                   {remove, nodes, "True", "True"},
		"after a creation":                   {corev1beta1.LastOperationTypeCreate, nodes, "True", "Progressing"},
		"after a move to another seed":       {corev1beta1.LastOperationTypeRestore, nodes, "True", "Progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			s.Status.LastOperation = &corev1beta1.LastOperation{
				Type: tc.operation, State: corev1beta1.LastOperationStateProcessing,
			}
			c := corev1beta1.Condition{
				Type: tc.kind, Status: tc.status, Reason: "Found", Message: "text", LastTransitionTime: earlier,
				LastUpdateTime: earlier,
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

// Progress starts at 0, never decreases within an operation, and is 100 only at its end.
func TestProgressOfAnOperation(t *testing.T) {
	waiting := func(done, steps int) flow.Result {
		return flow.Result{Steps: steps, Done: make([]string, done), Waiting: []flow.Wait{{Step: "a", Reason: "a is slow"}}}
	}
	failed := flow.Result{Steps: 4, Done: make([]string, 1), Failed: []flow.Failure{{Step: "a", Err: errors.New("boom")}}}
	shoot := &corev1beta1.Shoot{}
	shoot.Status.LastOperation = &corev1beta1.LastOperation{Progress: 100, State: corev1beta1.LastOperationStateSucceeded}
	begin(shoot, corev1beta1.LastOperationTypeReconcile, Identity{}, "shoot--dev--demo", now)
	if got := shoot.Status.LastOperation.Progress; got != 0 {
		t.Errorf("progress at the beginning = %d, want 0", got)
	}
	for i, step := range []struct {
		result flow.Result
		want   int32
	}{
		{waiting(0, 4), 0},
		{waiting(2, 4), 50},
		{waiting(1, 4), 50}, // A completed step waits again.
		{failed, 50},
		{waiting(3, 8), 50}, // More steps than before.
		{waiting(3, 4), 75},
		{flow.Result{Steps: 4, Done: make([]string, 4)}, 100},
	} {
		apply(shoot, step.result, time.Hour, now)
		if got := shoot.Status.LastOperation.Progress; got != step.want {
			t.Errorf("pass %d: progress = %d, want %d", i, got, step.want)
		}
	}
}

// TestErrorsFromOutsideTheSteps: an error that keeps steps from running is among the errors, which the label of the
// Shoot follows, and has the time at which it first occurred.
func TestErrorsFromOutsideTheSteps(t *testing.T) {
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	s := &corev1beta1.ShootStatus{LastErrors: []corev1beta1.LastError{{TaskID: ptr.To("worker")}}}
	for _, now := range []time.Time{first, later} {
		hinder(s, corev1beta1.LastOperationTypeCreate, flow.WithCodes(errors.New("no project"), "CODE"), now)
	}
	want := []corev1beta1.LastError{
		{TaskID: ptr.To("worker")},
		{
			TaskID: ptr.To("prepare"), Description: `task "prepare" failed: no project`, Codes: []corev1beta1.ErrorCode{"CODE"},
			LastUpdateTime: &metav1.Time{Time: first},
		},
	}
	if diff := cmp.Diff(want, s.LastErrors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if op := s.LastOperation; op.Type != corev1beta1.LastOperationTypeCreate ||
		op.State != corev1beta1.LastOperationStateError || op.LastUpdateTime.Time != first {
		t.Errorf("last operation %+v", op)
	}
}

// TestRefusalsHaveCodes: an answer of an API server on which users have to act has a code, and is retried.
func TestRefusalsHaveCodes(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err  error
		want []corev1beta1.ErrorCode
	}{
		"a quota of the project": {
			apierrors.NewForbidden(secrets, "a", errors.New("exceeded quota: objects, used: 5, limited: 5")),
			[]corev1beta1.ErrorCode{corev1beta1.ErrorInfraQuotaExceeded},
		},
		"a webhook that does not answer": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.org": no endpoints`)),
			[]corev1beta1.ErrorCode{corev1beta1.ErrorProblematicWebhook},
		},
		"something else that is forbidden":  {apierrors.NewForbidden(secrets, "a", errors.New("no rights")), nil},
		"a text that only quotes an answer": {errors.New("exceeded quota"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{}
			shoot.Status.LastOperation = &corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeReconcile}
			err := fmt.Errorf("write Secret: %w", tc.err)
			apply(shoot, flow.Result{Steps: 1, Failed: []flow.Failure{{Step: "a", Err: err}}}, time.Hour, time.Unix(1000, 0))
			if diff := cmp.Diff(tc.want, shoot.Status.LastErrors[0].Codes); diff != "" {
				t.Errorf("codes (-want +got):\n%s", diff)
			}
			if state := shoot.Status.LastOperation.State; state != corev1beta1.LastOperationStateError {
				t.Errorf("state %s, want Error", state)
			}
		})
	}
}
