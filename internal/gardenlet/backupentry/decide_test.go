package backupentry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

func operation(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) *corev1beta1.LastOperation {
	return &corev1beta1.LastOperation{Type: kind, State: state}
}

// entry is an entry on seed a that has to be on seed a.
func entry(change func(*corev1beta1.BackupEntry)) *corev1beta1.BackupEntry {
	e := &corev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Finalizers: []string{corev1beta1.FinalizerName},
			Annotations: map[string]string{}},
		Spec: corev1beta1.BackupEntrySpec{BucketName: "b", SeedName: ptr.To("a")},
		Status: corev1beta1.BackupEntryStatus{
			SeedName: ptr.To("a"), LastOperation: operation(corev1beta1.LastOperationTypeCreate,
				corev1beta1.LastOperationStateSucceeded),
		},
	}
	change(e)
	return e
}

func TestDecide(t *testing.T) {
	deleted := func(e *corev1beta1.BackupEntry) { e.DeletionTimestamp = &metav1.Time{Time: noon} }
	grace := Grace{Period: time.Hour, Purposes: []corev1beta1.ShootPurpose{corev1beta1.ShootPurposeProduction}}
	const (
		create    = corev1beta1.LastOperationTypeCreate
		reconcile = corev1beta1.LastOperationTypeReconcile
		restore   = corev1beta1.LastOperationTypeRestore
		migration = corev1beta1.LastOperationTypeMigrate
		deletion  = corev1beta1.LastOperationTypeDelete
		succeeded = corev1beta1.LastOperationStateSucceeded
		failed    = corev1beta1.LastOperationStateError
	)
	for name, tc := range map[string]struct {
		change func(*corev1beta1.BackupEntry)
		seed   string
		want   decision
	}{
		"a new one is created": {
			func(e *corev1beta1.BackupEntry) { e.Status = corev1beta1.BackupEntryStatus{} }, "a", decision{task: ensure,
				operation: create},
		},
		"an existing entry is reconciled": {func(*corev1beta1.BackupEntry) {}, "a",
			decision{task: ensure, operation: reconcile}},
		"the entry of another seed is ignored": {func(*corev1beta1.BackupEntry) {}, "b", decision{task: nothing}},
		"a lost seed is not awaited": {func(e *corev1beta1.BackupEntry) {
			e.Spec.SeedName, e.Annotations = ptr.To("b"), map[string]string{corev1beta1.AnnotationSourceIsDead: "a"}
		}, "b", decision{task: ensure, operation: restore}},
		"a seed that comes back ignores it": {func(e *corev1beta1.BackupEntry) {
			e.Spec.SeedName, e.Annotations = ptr.To("b"), map[string]string{corev1beta1.AnnotationSourceIsDead: "a"}
		}, "a", decision{task: nothing}},
		"until it has been taken over completely": {func(e *corev1beta1.BackupEntry) {
			e.Spec.SeedName, e.Status.SeedName, e.Annotations = ptr.To("b"), ptr.To("b"),
				map[string]string{corev1beta1.AnnotationSourceIsDead: "a"}
		}, "b", decision{task: ensure, operation: restore}},
		"a declaration about another seed does not count": {func(e *corev1beta1.BackupEntry) {
			e.Spec.SeedName, e.Annotations = ptr.To("b"), map[string]string{corev1beta1.AnnotationSourceIsDead: "c"}
		}, "b", decision{task: nothing}},
		"the old seed releases it": {func(e *corev1beta1.BackupEntry) { e.Spec.SeedName = ptr.To("b") }, "a",
			decision{task: migrate, operation: migration}},
		"meanwhile the new seed waits": {func(e *corev1beta1.BackupEntry) { e.Spec.SeedName = ptr.To("b") }, "b",
			decision{task: nothing}},
		"a migration precedes a deletion": {func(e *corev1beta1.BackupEntry) { deleted(e); e.Spec.SeedName = ptr.To("b") },
			"a", decision{task: migrate, operation: migration}},
		"what has been released is taken over": {func(e *corev1beta1.BackupEntry) {
			e.Spec.SeedName, e.Status.SeedName, e.Status.LastOperation = ptr.To("b"), nil, operation(migration, succeeded)
		}, "b", decision{task: ensure, operation: restore}},
		"until the restore has succeeded": {func(e *corev1beta1.BackupEntry) {
			e.Status.LastOperation = operation(restore,
				failed)
		}, "a", decision{task: ensure, operation: restore}},
		"and not again": {func(e *corev1beta1.BackupEntry) {
			e.Status.LastOperation = operation(restore,
				succeeded)
		}, "a", decision{task: ensure, operation: reconcile}},
		"what has been released in part is taken back": {func(e *corev1beta1.BackupEntry) {
			e.Status.MigrationStartTime = &metav1.Time{Time: noon}
		}, "a", decision{task: ensure, operation: restore}},
		"a restoration can be requested": {func(e *corev1beta1.BackupEntry) {
			e.Annotations[corev1beta1.AnnotationOperation] = corev1beta1.OperationRestore
		}, "a", decision{task: ensure, operation: restore}},
		"what has been released is taken over before it is deleted": {func(e *corev1beta1.BackupEntry) {
			deleted(e)
			e.Status.SeedName, e.Status.LastOperation = nil, operation(migration, succeeded)
		}, "a", decision{task: ensure, operation: restore}},
		"a purpose without a grace period": {
			func(e *corev1beta1.BackupEntry) { deleted(e); e.Annotations[AnnotationShootPurpose] = "testing" }, "a",
			decision{task: remove, operation: deletion},
		},
		"no purpose": {func(e *corev1beta1.BackupEntry) { deleted(e) }, "a",
			decision{task: remove, operation: deletion}},
		"the grace period": {func(e *corev1beta1.BackupEntry) {
			deleted(e)
			e.Annotations[AnnotationShootPurpose] = "production"
		}, "a",
			decision{task: wait, operation: deletion, until: noon.Add(time.Hour)}},
		"the grace period is over": {func(e *corev1beta1.BackupEntry) {
			e.DeletionTimestamp = &metav1.Time{Time: noon.Add(-2 * time.Hour)}
			e.Annotations[AnnotationShootPurpose] = "production"
		}, "a", decision{task: remove, operation: deletion}},
		"a forced deletion does not wait": {func(e *corev1beta1.BackupEntry) {
			deleted(e)
			e.Annotations[AnnotationShootPurpose], e.Annotations[corev1beta1.AnnotationBackupEntryForceDeletion] = "production",
				"true"
		}, "a", decision{task: remove, operation: deletion}},
		"force-deletion=false is none": {func(e *corev1beta1.BackupEntry) {
			deleted(e)
			e.Annotations[AnnotationShootPurpose], e.Annotations[corev1beta1.AnnotationBackupEntryForceDeletion] = "production",
				"false"
		}, "a", decision{task: wait, operation: deletion, until: noon.Add(time.Hour)}},
		"an entry without finalizers is ignored": {func(e *corev1beta1.BackupEntry) { deleted(e); e.Finalizers = nil }, "a",
			decision{task: nothing}},
		"an entry without a seed is ignored": {
			func(e *corev1beta1.BackupEntry) { e.Spec.SeedName, e.Status.SeedName = nil, nil }, "a", decision{task: nothing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decide(entry(tc.change), tc.seed, grace, noon),
				cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("decide() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGraceWithoutPurposesHoldsForAll(t *testing.T) {
	e := entry(func(e *corev1beta1.BackupEntry) { e.DeletionTimestamp = &metav1.Time{Time: noon} })
	if got := (Grace{Period: time.Hour}).until(e); !got.Equal(noon.Add(time.Hour)) {
		t.Errorf("until() = %s, want an hour after %s", got, noon)
	}
}

func TestUnusableBuckets(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1beta1.BackupBucketStatus
		want   corev1beta1.LastOperationState
	}{
		"new": {corev1beta1.BackupBucketStatus{}, corev1beta1.LastOperationStatePending},
		"being created": {corev1beta1.BackupBucketStatus{LastOperation: operation("Create", "Processing")},
			corev1beta1.LastOperationStatePending},
		"created":          {corev1beta1.BackupBucketStatus{LastOperation: operation("Create", "Succeeded")}, ""},
		"being reconciled": {corev1beta1.BackupBucketStatus{LastOperation: operation("Reconcile", "Processing")}, ""},
		"failing": {corev1beta1.BackupBucketStatus{LastOperation: operation("Reconcile", "Error")},
			corev1beta1.LastOperationStateError},
		"with an older error": {corev1beta1.BackupBucketStatus{LastOperation: operation("Reconcile", "Processing"),
			LastError: &corev1beta1.LastError{}}, corev1beta1.LastOperationStateError},
	} {
		t.Run(name, func(t *testing.T) {
			var got corev1beta1.LastOperationState
			if problem := unusable(&corev1beta1.BackupBucket{Status: tc.status}); problem != nil {
				got = problem.State
			}
			if got != tc.want {
				t.Errorf("unusable() = %q, want %q", got, tc.want)
			}
		})
	}
}
