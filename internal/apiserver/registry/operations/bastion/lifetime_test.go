package bastion

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
)

func TestLifetime(t *testing.T) {
	created := time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakeClock(created)
	kind := Kind(clock)
	bastion := &operationsv1alpha1.Bastion{}
	kind.PrepareForCreate(t.Context(), bastion)
	bastion.CreationTimestamp = metav1.Time{Time: created}
	check := func(name string, beat, expires time.Duration) {
		t.Helper()
		if got := bastion.Status.LastHeartbeatTimestamp.Sub(created); got != beat {
			t.Errorf("%s: the last sign of life is %v after the creation, want %v", name, got, beat)
		}
		if got := bastion.Status.ExpirationTimestamp.Sub(created); got != expires {
			t.Errorf("%s: it expires %v after the creation, want %v", name, got, expires)
		}
	}
	check("created", 0, time.Hour)

	update := func(after time.Duration, operation string) {
		t.Helper()
		clock.SetTime(created.Add(after))
		updated := bastion.DeepCopy()
		updated.Annotations = map[string]string{"other": "x"}
		if operation != "" {
			updated.Annotations[corev1beta1.AnnotationOperation] = operation
		}
		if kind.PrepareForUpdate(t.Context(), updated, bastion) {
			t.Error("a sign of life increments the generation")
		}
		if left := updated.Annotations[corev1beta1.AnnotationOperation]; left == corev1beta1.OperationKeepalive {
			t.Error("the request is still there when it is carried out")
		}
		if updated.Annotations["other"] != "x" {
			t.Error("another annotation is gone")
		}
		bastion = updated
	}
	update(10*time.Minute, "")
	check("an update without request", 0, time.Hour)
	update(30*time.Minute, corev1beta1.OperationKeepalive)
	check("kept alive", 30*time.Minute, 90*time.Minute)
	update(23*time.Hour+30*time.Minute, corev1beta1.OperationKeepalive)
	check("kept alive near the end", 23*time.Hour+30*time.Minute, 24*time.Hour)
	bastion.DeletionTimestamp = &metav1.Time{Time: clock.Now()}
	update(23*time.Hour+40*time.Minute, corev1beta1.OperationKeepalive)
	check("kept alive while it is deleted", 23*time.Hour+30*time.Minute, 24*time.Hour)
}
