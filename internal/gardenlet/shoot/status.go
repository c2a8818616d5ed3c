package shoot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
)

// nonRetryable codes need a user: trying again without one would fail again.
var nonRetryable = []corev1beta1.ErrorCode{
	corev1beta1.ErrorInfraUnauthenticated, corev1beta1.ErrorInfraUnauthorized, corev1beta1.ErrorInfraQuotaExceeded,
	corev1beta1.ErrorInfraDependencies, corev1beta1.ErrorConfigurationProblem,
}

// selfHealing codes are non-retryable ones whose cause may vanish without anybody touching the Shoot.
var selfHealing = []corev1beta1.ErrorCode{corev1beta1.ErrorInfraQuotaExceeded}

// Identity of the acting gardenlet.
type Identity struct{ ID, Name, Version string }

// begin records the start of an operation.
func begin(
	shoot *corev1beta1.Shoot, operation corev1beta1.LastOperationType, me Identity, technicalID string, now time.Time,
) {
	s := &shoot.Status
	previous := s.LastOperation
	if s.RetryCycleStartTime == nil || shoot.Generation != s.ObservedGeneration || s.Gardener.Version != me.Version ||
		(operation == corev1beta1.LastOperationTypeDelete && (previous == nil || previous.Type != operation)) {
		s.RetryCycleStartTime = &metav1.Time{Time: now}
	}
	s.LastOperation = &corev1beta1.LastOperation{
		Type: operation, State: corev1beta1.LastOperationStateProcessing, Description: startDescription(operation),
		LastUpdateTime: metav1.Time{Time: now},
	}
	if operation == corev1beta1.LastOperationTypeMigrate && (previous == nil || previous.Type != operation) {
		s.MigrationStartTime = &metav1.Time{Time: now}
	}
	if s.TechnicalID == "" {
		s.TechnicalID = technicalID
	}
	if s.UID == "" {
		s.UID = shoot.UID
	}
	if operation != corev1beta1.LastOperationTypeDelete && operation != corev1beta1.LastOperationTypeMigrate {
		s.SeedName = shoot.Spec.SeedName
	}
	s.Gardener = corev1beta1.Gardener{ID: me.ID, Name: me.Name, Version: me.Version}
	s.ObservedGeneration = shoot.Generation
	dropGonePools(shoot)
}

// dropGonePools forgets pending roll-outs of pools that no longer exist.
func dropGonePools(shoot *corev1beta1.Shoot) {
	if shoot.Status.Credentials == nil || shoot.Status.Credentials.Rotation == nil {
		return
	}
	hibernated := shoot.HibernationEnabled()
	gone := func(p corev1beta1.PendingWorkersRollout) bool {
		return hibernated || !slices.ContainsFunc(shoot.Spec.Provider.Workers,
			func(w corev1beta1.Worker) bool { return w.Name == p.Name })
	}
	r := shoot.Status.Credentials.Rotation
	if ca := r.CertificateAuthorities; ca != nil {
		ca.PendingWorkersRollouts = slices.DeleteFunc(ca.PendingWorkersRollouts, gone)
	}
	if key := r.ServiceAccountKey; key != nil {
		key.PendingWorkersRollouts = slices.DeleteFunc(key.PendingWorkersRollouts, gone)
	}
}

func startDescription(operation corev1beta1.LastOperationType) string {
	switch operation {
	case corev1beta1.LastOperationTypeCreate:
		return "Creation of Shoot cluster initialized."
	case corev1beta1.LastOperationTypeDelete:
		return "Deletion of Shoot cluster in progress."
	case corev1beta1.LastOperationTypeMigrate:
		return "Preparation of Shoot cluster for migration initialized."
	case corev1beta1.LastOperationTypeRestore:
		return "Restoration of Shoot cluster initialized."
	}
	return "Reconciliation of Shoot cluster initialized."
}

// apply records the result of a pass. It reports whether the operation has ended, well or not.
func apply(shoot *corev1beta1.Shoot, result flow.Result, retryDuration time.Duration, now time.Time) (ended bool) {
	s := &shoot.Status
	operation := s.LastOperation.Type
	if result.Complete() {
		succeed(shoot, operation, now)
		return true
	}
	// A step that waits again does not decrease the progress that users have seen; 100 is for the end of the operation.
	progress := max(min(s.LastOperation.Progress, 99), result.Progress())
	if len(result.Failed) == 0 {
		// Errors of steps that are done by now, or wait again, no longer apply.
		s.LastErrors = slices.DeleteFunc(s.LastErrors,
			func(e corev1beta1.LastError) bool { return !slices.Contains(result.Blocked, ptr.Deref(e.TaskID, "")) })
		if len(s.LastErrors) == 0 {
			s.LastErrors = nil
		}
		setOperation(s, corev1beta1.LastOperationStateProcessing, progress, describe(result), now)
		return false
	}
	s.LastErrors = lastErrors(s.LastErrors, result.Failed, now)
	state, suffix := corev1beta1.LastOperationStateError, " Operation will be retried."
	overdue := s.RetryCycleStartTime != nil && now.Sub(s.RetryCycleStartTime.Time) > retryDuration
	if overdue || hasNonRetryable(result.Failed) {
		state, suffix = corev1beta1.LastOperationStateFailed, ""
		s.RetryCycleStartTime = nil
		ended = true
	}
	setOperation(s, state, progress, describe(result)+suffix, now)
	return ended
}

// taskPrepare names what is done before and after the steps, in errors of a Shoot.
const taskPrepare = "prepare"

// hinder records an error from outside the steps. It stays until a pass gets further, and so do errors of steps.
func hinder(s *corev1beta1.ShootStatus, operation corev1beta1.LastOperationType, cause error, now time.Time) {
	if s.LastOperation == nil {
		s.LastOperation = &corev1beta1.LastOperation{Type: operation}
	}
	last := *s.LastOperation
	if last.State == corev1beta1.LastOperationStateSucceeded && operation == corev1beta1.LastOperationTypeReconcile {
		// The operation that fails is the next one: a Shoot that has been created is not being created again.
		last.Type, last.Progress = operation, 0
	}
	s.LastOperation = &last
	others := slices.DeleteFunc(slices.Clone(s.LastErrors),
		func(e corev1beta1.LastError) bool { return ptr.Deref(e.TaskID, "") == taskPrepare })
	s.LastErrors = append(others, lastErrors(s.LastErrors, []flow.Failure{{Step: taskPrepare, Err: cause}}, now)...)
	setOperation(s, corev1beta1.LastOperationStateError, last.Progress, cause.Error()+". Operation will be retried.", now)
}

// succeed records that everything is done.
func succeed(shoot *corev1beta1.Shoot, operation corev1beta1.LastOperationType, now time.Time) {
	s := &shoot.Status
	description := "Shoot cluster has been successfully reconciled."
	switch operation {
	case corev1beta1.LastOperationTypeCreate:
		description = "Shoot cluster has been successfully created."
	case corev1beta1.LastOperationTypeRestore:
		description = "Shoot cluster has been successfully restored."
	case corev1beta1.LastOperationTypeDelete:
		description = "Shoot cluster has been successfully deleted."
	case corev1beta1.LastOperationTypeMigrate:
		description = "Shoot cluster has been successfully prepared for migration."
	}
	setOperation(s, corev1beta1.LastOperationStateSucceeded, 100, description, now)
	s.LastErrors, s.RetryCycleStartTime = nil, nil
	if operation == corev1beta1.LastOperationTypeDelete {
		return
	}
	s.SeedName = shoot.Spec.SeedName
	if operation == corev1beta1.LastOperationTypeMigrate {
		return // From here on the other seed is responsible.
	}
	s.MigrationStartTime = nil
	s.IsHibernated = shoot.HibernationEnabled()
	s.Conditions, s.Constraints = awaitCare(s.Conditions, now), awaitCare(s.Constraints, now)
	finishRotation(s, now)
}

// judgedByCare are the conditions and constraints that care always sets. It looks again as soon as an operation has
// ended.
var judgedByCare = []corev1beta1.ConditionType{
	corev1beta1.ShootAPIServerAvailable, corev1beta1.ShootControlPlaneHealthy, corev1beta1.ShootEveryNodeReady,
	corev1beta1.ShootSystemComponentsHealthy,
	corev1beta1.ShootHibernationPossible, corev1beta1.ShootMaintenancePreconditionsSatisfied,
}

// awaitCare returns the conditions with findings of care from before an operation Progressing, so that they do not look
// like findings about its result. What is False stays so until it is known to be over.
func awaitCare(conditions []corev1beta1.Condition, now time.Time) []corev1beta1.Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		c := &conditions[i]
		stays := c.Status == corev1beta1.ConditionFalse || c.Status == corev1beta1.ConditionProgressing
		if stays || !slices.Contains(judgedByCare, c.Type) {
			continue
		}
		c.Status = corev1beta1.ConditionProgressing
		c.LastTransitionTime, c.LastUpdateTime = metav1.Time{Time: now}, metav1.Time{Time: now}
	}
	return conditions
}

// setOperation changes the operation's state, and its time only if something is different: a status that says the same
// is not written again.
func setOperation(
	s *corev1beta1.ShootStatus, state corev1beta1.LastOperationState, progress int32, description string, now time.Time,
) {
	op := *s.LastOperation
	op.State, op.Progress, op.Description = state, progress, description
	if op == *s.LastOperation {
		return
	}
	op.LastUpdateTime = metav1.Time{Time: now}
	s.LastOperation = &op
}

// maxDescription bounds the text in lastOperation, which is written often and shown in one line.
const maxDescription = 1000

func describe(r flow.Result) string {
	d := r.Description()
	if len(d) > maxDescription {
		d = d[:maxDescription] + "..."
	}
	if d != "" && !strings.HasSuffix(d, ".") {
		d += "."
	}
	return d
}

// lastErrors has one entry per failed step, sorted as in the flow. An error that was there before keeps its time.
func lastErrors(before []corev1beta1.LastError, failed []flow.Failure, now time.Time) []corev1beta1.LastError {
	var out []corev1beta1.LastError
	for _, f := range failed {
		e := corev1beta1.LastError{
			Description: fmt.Sprintf("task %q failed: %v", f.Step, f.Err), TaskID: ptr.To(f.Step),
			LastUpdateTime: &metav1.Time{Time: now},
		}
		for _, c := range flow.Codes(f.Err) {
			e.Codes = append(e.Codes, corev1beta1.ErrorCode(c))
		}
		if c := refusal(f.Err); c != "" && !slices.Contains(e.Codes, c) {
			e.Codes = append(e.Codes, c)
		}
		for _, b := range before {
			if ptr.Deref(b.TaskID, "") == f.Step && b.Description == e.Description {
				e.LastUpdateTime = b.LastUpdateTime
			}
		}
		out = append(out, e)
	}
	return out
}

// refusal is the code of an API server's answer on which users have to act; "" for others. The answers have no reasons
// of their own, so their texts decide. They are retried, since nothing of the Shoot changes when the cause is gone.
func refusal(err error) corev1beta1.ErrorCode {
	switch text := err.Error(); {
	case apierrors.IsForbidden(err) && strings.Contains(text, "exceeded quota"): // A ResourceQuota of the project.
		return corev1beta1.ErrorInfraQuotaExceeded
	case apierrors.IsInternalError(err) && strings.Contains(text, "failed calling webhook"):
		return corev1beta1.ErrorProblematicWebhook
	}
	return ""
}

func hasNonRetryable(failed []flow.Failure) bool {
	return slices.ContainsFunc(failed, func(f flow.Failure) bool {
		return slices.ContainsFunc(flow.Codes(f.Err), func(c string) bool {
			return slices.Contains(nonRetryable, corev1beta1.ErrorCode(c))
		})
	})
}

// mayHeal: a Failed operation whose only non-retryable codes may vanish by themselves.
func mayHeal(s *corev1beta1.ShootStatus) bool {
	if s.LastOperation == nil || s.LastOperation.State != corev1beta1.LastOperationStateFailed {
		return false
	}
	found := false
	for _, e := range s.LastErrors {
		for _, c := range e.Codes {
			if slices.Contains(selfHealing, c) {
				found = true
			} else if slices.Contains(nonRetryable, c) {
				return false
			}
		}
	}
	return found
}
