package steps

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestBackupEntryWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1beta1.BackupEntry)
		want   string
	}{
		"ready": {func(*corev1beta1.BackupEntry) {}, ""},
		"new": {func(e *corev1beta1.BackupEntry) { e.Status = corev1beta1.BackupEntryStatus{} },
			"BackupEntry e has not been reconciled yet"},
		"requested again": {
			func(e *corev1beta1.BackupEntry) { e.Generation = 2 }, "BackupEntry e has not been reconciled yet",
		},
		"in the works": {func(e *corev1beta1.BackupEntry) {
			e.Status.LastOperation.State, e.Status.LastOperation.Description = corev1beta1.LastOperationStatePending,
				"the bucket is new"
		}, "BackupEntry e: the bucket is new"},
		"failing": {func(e *corev1beta1.BackupEntry) {
			e.Status.LastError = &corev1beta1.LastError{Description: "no access"}
		}, "BackupEntry e: no access"},
		"being deleted": {func(e *corev1beta1.BackupEntry) {
			e.DeletionTimestamp = &metav1.Time{}
		}, "BackupEntry e is being deleted before it can be created again"},
		"elsewhere": {func(e *corev1beta1.BackupEntry) { e.Spec.SeedName = ptr.To("b") },
			"BackupEntry e is still on Seed b"},
		"on its way": {func(e *corev1beta1.BackupEntry) { e.Status.SeedName = ptr.To("b") },
			"BackupEntry e is being moved from Seed b"},
		"handed over": {func(e *corev1beta1.BackupEntry) {
			e.Status.SeedName, e.Status.LastOperation.Type = nil, corev1beta1.LastOperationTypeMigrate
		}, "BackupEntry e has not been reconciled yet"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &corev1beta1.BackupEntry{
				ObjectMeta: metav1.ObjectMeta{Name: "e", Generation: 1},
				Spec:       corev1beta1.BackupEntrySpec{BucketName: "b", SeedName: ptr.To("a")},
				Status: corev1beta1.BackupEntryStatus{SeedName: ptr.To("a"), ObservedGeneration: 1,
					LastOperation: &corev1beta1.LastOperation{
						Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
					}},
			}
			tc.change(e)
			if got := backupEntryWaits(e, "a"); got != tc.want {
				t.Errorf("backupEntryWaits() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBackupSecretDue(t *testing.T) {
	noon := time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	for name, tc := range map[string]struct {
		succeeded, namespace, started time.Time
		want                          bool
	}{
		"succeeded before the namespace existed":   {hour(1), hour(2), hour(0), true},
		"succeeded at the same time":               {hour(1), hour(1), hour(0), true},
		"succeeded before the operation began":     {hour(1), hour(0), hour(2), true},
		"succeeded in this operation":              {hour(2), hour(0), hour(1), false},
		"succeeded in the second of its beginning": {hour(2), hour(0), hour(2).Add(time.Millisecond), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := backupSecretDue(tc.succeeded, tc.namespace, tc.started); got != tc.want {
				t.Errorf("backupSecretDue() = %t, want %t", got, tc.want)
			}
		})
	}
}
