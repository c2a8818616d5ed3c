package maintenance

import (
	"slices"
	"strconv"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var maintenanceTasks = []string{
	corev1beta1.ShootTaskDeployInfrastructure,
	corev1beta1.ShootTaskDeployDNSRecordInternal,
	corev1beta1.ShootTaskDeployDNSRecordExternal,
	corev1beta1.ShootTaskDeployDNSRecordIngress,
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// split returns the entries of a separated annotation value without blanks and duplicates.
func split(value, separator string) []string {
	var entries []string
	for _, entry := range strings.Split(value, separator) {
		if entry = strings.TrimSpace(entry); entry != "" && !contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// WantsMaintenance reports whether the Shoot requests a maintenance now, outside its window.
func WantsMaintenance(shoot *corev1beta1.Shoot) bool {
	return contains(split(shoot.Annotations[corev1beta1.AnnotationOperation], corev1beta1.OperationSeparator),
		corev1beta1.OperationMaintain)
}

// ClearRequest removes the request for a maintenance from a Shoot, in place, and reports whether there was one.
func ClearRequest(shoot *corev1beta1.Shoot) bool {
	requested := WantsMaintenance(shoot)
	if requested {
		delete(shoot.Annotations, corev1beta1.AnnotationOperation)
	}
	return requested
}

// CanStartOperations reports whether new operations start: after a successful creation or restoration, and during any
// reconciliation whose state is not Failed. The API server accepts them after a Failed reconciliation, too, with a
// warning: of a failed Shoot nothing but a retry starts.
func CanStartOperations(last *corev1beta1.LastOperation) bool {
	if last == nil || last.State == corev1beta1.LastOperationStateFailed {
		return false
	}
	switch last.Type {
	case corev1beta1.LastOperationTypeReconcile:
		return true
	case corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeRestore:
		return last.State == corev1beta1.LastOperationStateSucceeded
	}
	return false
}

// DeferredOperations are the operations that a user has scheduled for the next maintenance.
func DeferredOperations(shoot *corev1beta1.Shoot) []string {
	return split(shoot.Annotations[corev1beta1.AnnotationMaintenanceOperation], corev1beta1.OperationSeparator)
}

// startOperations sets the operation annotation, in place, and returns the text to report, if any: deferred
// operations and due rotations start together with the reconciliation. A failed Shoot is only retried, and only if
// its spec has changed since.
func startOperations(shoot *corev1beta1.Shoot, rotations []Credential) string {
	ClearRequest(shoot)
	last := shoot.Status.LastOperation
	if last == nil {
		return ""
	}
	if last.State == corev1beta1.LastOperationStateFailed {
		if wanted, err := strconv.ParseBool(shoot.Annotations[corev1beta1.AnnotationNeedsRetryOperation]); err != nil ||
			!wanted {
			return ""
		}
		delete(shoot.Annotations, corev1beta1.AnnotationNeedsRetryOperation)
		shoot.Annotations[corev1beta1.AnnotationOperation] = corev1beta1.OperationRetry
		return reported(corev1beta1.OperationRetry)
	}
	operations := DeferredOperations(shoot)
	if !contains(operations, corev1beta1.OperationReconcile) {
		operations = append(operations, corev1beta1.OperationReconcile)
	}
	for _, r := range rotations {
		if r.Err == "" {
			operations = append(operations, r.Operation)
		}
	}
	delete(shoot.Annotations, corev1beta1.AnnotationMaintenanceOperation)
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	value := strings.Join(operations, corev1beta1.OperationSeparator)
	shoot.Annotations[corev1beta1.AnnotationOperation] = value
	if value == corev1beta1.OperationReconcile {
		return ""
	}
	return reported(value)
}

func reported(operation string) string {
	return "Added " + strconv.Quote(operation) + " operation annotation"
}

// addTasks adds to the tasks of the next reconciliation, in place.
func addTasks(shoot *corev1beta1.Shoot, tasks ...string) {
	all := split(shoot.Annotations[corev1beta1.AnnotationShootTasks], ",")
	for _, task := range tasks {
		if !contains(all, task) {
			all = append(all, task)
		}
	}
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	shoot.Annotations[corev1beta1.AnnotationShootTasks] = strings.Join(all, ",")
}
