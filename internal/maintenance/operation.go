package maintenance

import (
	"slices"
	"strconv"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	annotationOperation            = "gardener.cloud/operation"
	annotationMaintenanceOperation = "maintenance.gardener.cloud/operation"
	annotationNeedsRetry           = "maintenance.shoot.gardener.cloud/needs-retry-operation"
	annotationTasks                = "shoot.gardener.cloud/tasks"
)

var maintenanceTasks = []string{
	"deployInfrastructure", "deployDNSRecordInternal", "deployDNSRecordExternal", "deployDNSRecordIngress",
}

const (
	taskRestartControlPlanePods = "restartControlPlanePods"
	taskRestartCoreAddons       = "restartCoreAddons"
)

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

// WantsMaintenance reports whether the Shoot asks for a maintenance now, outside its window.
func WantsMaintenance(shoot *corev1beta1.Shoot) bool {
	return contains(split(shoot.Annotations[annotationOperation], ";"), operationMaintain)
}

// ClearRequest removes the request for a maintenance from a Shoot, in place, and reports whether there was one.
func ClearRequest(shoot *corev1beta1.Shoot) bool {
	asked := WantsMaintenance(shoot)
	if asked {
		delete(shoot.Annotations, annotationOperation)
	}
	return asked
}

// canStartOperations reports whether the API server accepts new operations: after a successful creation or
// restoration, and during any reconciliation that has not failed for good.
func canStartOperations(last *corev1beta1.LastOperation) bool {
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

// DeferredOperations are the operations that a user has asked to start in the maintenance.
func DeferredOperations(shoot *corev1beta1.Shoot) []string {
	return split(shoot.Annotations[annotationMaintenanceOperation], ";")
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
		if wanted, err := strconv.ParseBool(shoot.Annotations[annotationNeedsRetry]); err != nil || !wanted {
			return ""
		}
		delete(shoot.Annotations, annotationNeedsRetry)
		shoot.Annotations[annotationOperation] = operationRetry
		return reported(operationRetry)
	}
	operations := DeferredOperations(shoot)
	if !contains(operations, operationReconcile) {
		operations = append(operations, operationReconcile)
	}
	for _, r := range rotations {
		if r.Err == "" {
			operations = append(operations, r.Operation)
		}
	}
	delete(shoot.Annotations, annotationMaintenanceOperation)
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	value := strings.Join(operations, ";")
	shoot.Annotations[annotationOperation] = value
	if value == operationReconcile {
		return ""
	}
	return reported(value)
}

func reported(operation string) string {
	return "Added " + strconv.Quote(operation) + " operation annotation"
}

// addTasks adds to the tasks of the next reconciliation, in place.
func addTasks(shoot *corev1beta1.Shoot, tasks ...string) {
	all := split(shoot.Annotations[annotationTasks], ",")
	for _, task := range tasks {
		if !contains(all, task) {
			all = append(all, task)
		}
	}
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	shoot.Annotations[annotationTasks] = strings.Join(all, ",")
}
