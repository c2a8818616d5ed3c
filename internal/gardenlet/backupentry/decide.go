package backupentry

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/backup"
)

// AnnotationShootPurpose on a BackupEntry is spec.purpose of its Shoot, which may be deleted before the entry.
const AnnotationShootPurpose = "shoot.gardener.cloud/purpose"

// task is what a gardenlet has to do for an entry.
type task string

const (
	nothing task = "Nothing" // Another seed is responsible, or the entry is gone.
	ensure  task = "Ensure"
	migrate task = "Migrate"
	wait    task = "Wait" // Until the end of the grace period.
	remove  task = "Remove"
)

// decision about an entry.
type decision struct {
	task      task
	operation corev1beta1.LastOperationType
	// until is when the grace period ends.
	until time.Time
}

// Grace says how long backups are kept after the deletion of their Shoot.
type Grace struct {
	Period time.Duration
	// Purposes of the Shoots whose backups are kept; empty means all.
	Purposes []corev1beta1.ShootPurpose
}

// until is when the backups of an entry that is being deleted may go.
func (g Grace) until(entry *corev1beta1.BackupEntry) time.Time {
	purpose := corev1beta1.ShootPurpose(entry.Annotations[AnnotationShootPurpose])
	if on(entry, corev1beta1.AnnotationBackupEntryForceDeletion) || len(g.Purposes) > 0 &&
		!slices.Contains(g.Purposes, purpose) {
		return entry.DeletionTimestamp.Time
	}
	return entry.DeletionTimestamp.Add(g.Period)
}

// decide returns the task of a seed's gardenlet for an entry.
func decide(entry *corev1beta1.BackupEntry, seed string, grace Grace, now time.Time) decision {
	deleting := entry.DeletionTimestamp != nil
	switch {
	case responsible(entry) != seed, deleting && !controllerutil.ContainsFinalizer(entry, corev1beta1.FinalizerName):
		return decision{task: nothing}
	case responsible(entry) != ptr.Deref(entry.Spec.SeedName, ""):
		return decision{task: migrate, operation: corev1beta1.LastOperationTypeMigrate}
	case restoring(entry):
		// Also before a deletion: only a seed that has taken over the backups can delete them.
		return decision{task: ensure, operation: corev1beta1.LastOperationTypeRestore}
	case !deleting:
		return decision{task: ensure, operation: backup.Operation(entry.Status.LastOperation)}
	}
	if until := grace.until(entry); now.Before(until) {
		return decision{task: wait, operation: corev1beta1.LastOperationTypeDelete, until: until}
	}
	return decision{task: remove, operation: corev1beta1.LastOperationTypeDelete}
}

// responsible is the seed whose gardenlet acts: the one that uses the entry, until it has handed it over or is known to
// be gone.
func responsible(entry *corev1beta1.BackupEntry) string {
	if seed := ptr.Deref(entry.Status.SeedName, ""); seed != "" &&
		entry.Annotations[corev1beta1.AnnotationSourceIsDead] != seed {
		return seed
	}
	return ptr.Deref(entry.Spec.SeedName, "")
}

// restoring: another seed has handed the entry over or is gone and this one has not taken it over yet, or this one had
// begun to hand it over when the spec named it again, or somebody requests that.
func restoring(entry *corev1beta1.BackupEntry) bool {
	if entry.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationRestore ||
		entry.Annotations[corev1beta1.AnnotationSourceIsDead] != "" || entry.Status.MigrationStartTime != nil {
		return true
	}
	last := entry.Status.LastOperation
	if last == nil {
		return false
	}
	return last.Type == corev1beta1.LastOperationTypeMigrate && last.State == corev1beta1.LastOperationStateSucceeded ||
		last.Type == corev1beta1.LastOperationTypeRestore && last.State != corev1beta1.LastOperationStateSucceeded
}

// on reports whether an annotation has a true value.
func on(entry *corev1beta1.BackupEntry, annotation string) bool {
	value, err := strconv.ParseBool(entry.Annotations[annotation])
	return err == nil && value
}
