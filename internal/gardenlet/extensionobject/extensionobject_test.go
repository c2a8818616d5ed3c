package extensionobject

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// object was requested at noon and has succeeded since.
func object(change func(*extensionsv1alpha1.BackupBucket)) *extensionsv1alpha1.BackupBucket {
	o := &extensionsv1alpha1.BackupBucket{
		ObjectMeta: metav1.ObjectMeta{Name: "o", Generation: 1, Annotations: map[string]string{
			extensionsv1alpha1.AnnotationTimestamp: noon.Format(time.RFC3339Nano), AnnotationChecksum: "1",
		}},
		Status: extensionsv1alpha1.BackupBucketStatus{DefaultStatus: extensionsv1alpha1.DefaultStatus{
			ObservedGeneration: 1,
			LastOperation: &corev1beta1.LastOperation{
				Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
				LastUpdateTime: metav1.Time{Time: noon},
			},
		}},
	}
	change(o)
	return o
}

type changes = func(*extensionsv1alpha1.BackupBucket)

var (
	fails changes = func(o *extensionsv1alpha1.BackupBucket) {
		o.Status.LastOperation.State = corev1beta1.LastOperationStateError
		o.Status.LastError = &corev1beta1.LastError{Description: "no access",
			Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraUnauthorized}}
	}
	migrated changes = func(o *extensionsv1alpha1.BackupBucket) {
		o.Status.LastOperation.Type = corev1beta1.LastOperationTypeMigrate
	}
)

func requests(operation string) changes {
	return func(o *extensionsv1alpha1.BackupBucket) {
		o.Annotations[extensionsv1alpha1.AnnotationOperation] = operation
	}
}

func all(list ...changes) changes {
	return func(o *extensionsv1alpha1.BackupBucket) {
		for _, c := range list {
			c(o)
		}
	}
}

// older has the success of an older request, or of an extension whose clock is behind.
func older(o *extensionsv1alpha1.BackupBucket) {
	o.Status.LastOperation.LastUpdateTime.Time = noon.Add(-time.Second)
}

func TestDue(t *testing.T) {
	for name, tc := range map[string]struct {
		current changes
		wanted  func(*Wanted)
		after   time.Duration
		want    string
	}{
		"as it should be": {all(), func(*Wanted) {}, 0, ""},
		"never requested": {func(o *extensionsv1alpha1.BackupBucket) { o.Annotations = nil }, func(*Wanted) {},
			0, "nothing was requested of it yet"},
		"another spec": {all(),
			func(w *Wanted) { w.Object.(*extensionsv1alpha1.BackupBucket).Spec.Region = "r" }, 0,
			"its specification has changed"},
		"other credentials":      {all(), func(w *Wanted) { w.Checksum = "2" }, 0, "its credentials have changed"},
		"an older success":       {older, func(*Wanted) {}, time.Second, ""},
		"still an older success": {older, func(*Wanted) {}, minRetry, "its last request was not answered"},
		"it has not begun":       {all(older, requests("reconcile")), func(*Wanted) {}, minRetry, ""},
		"it is requested":        {all(), func(w *Wanted) { w.Force = true }, 0, "it was requested"},
		"failed just now":        {fails, func(*Wanted) {}, time.Second, ""},
		"failed a while ago":     {fails, func(*Wanted) {}, minRetry, "its last operation has failed"},
		"failing for an hour": {fails, func(w *Wanted) { w.FailingSince = noon.Add(-time.Hour) }, time.Minute,
			""},
		"not taken up yet": {all(fails, requests("reconcile")), func(*Wanted) {}, time.Hour, ""},
		"a restoration that fails": {all(fails, requests("restore")), func(w *Wanted) { w.Restore = true }, time.Hour,
			"its last operation has failed"},
		"migrated":                    {migrated, func(*Wanted) {}, time.Hour, ""},
		"migrated and to be restored": {migrated, func(w *Wanted) { w.Restore = true }, 0, "another seed has released it"},
		"a restoration that has not begun": {all(migrated, requests("restore")), func(w *Wanted) { w.Restore = true },
			time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := Wanted{Object: &extensionsv1alpha1.BackupBucket{}, Checksum: "1"}
			tc.wanted(&w)
			if got := due(object(tc.current), w, noon.Add(tc.after)); got != tc.want {
				t.Errorf("due() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	for name, tc := range map[string]struct {
		current changes
		want    Progress
	}{
		"succeeded":        {all(), Progress{State: Done}},
		"not taken up yet": {requests("reconcile"), waiting("BackupBucket o waits for its extension")},
		"a failed request is repeated": {
			all(fails, requests("reconcile")), waiting("BackupBucket o waits for its extension"),
		},
		"failed": {fails, Progress{State: Failed, Reason: "no access", RetryAt: noon.Add(minRetry)}},
		"a restoration that fails": {all(fails, requests("restore")),
			Progress{State: Failed, Reason: "no access", RetryAt: noon.Add(minRetry)}},
		"a restoration that continues": {requests("restore"), waiting("BackupBucket o waits for its extension")},
		"another generation": {func(o *extensionsv1alpha1.BackupBucket) { o.Generation = 2 },
			waiting("BackupBucket o has not been observed by its extension yet")},
		"no operation": {func(o *extensionsv1alpha1.BackupBucket) { o.Status.LastOperation = nil },
			waiting("BackupBucket o has not been reconciled yet")},
		"an answer to an older request": {older, Progress{State: Waiting, RetryAt: noon.Add(minRetry),
			Reason: "BackupBucket o has not been reconciled since it was requested"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := observe("BackupBucket", object(tc.current), time.Time{})
			if got.State != tc.want.State || got.Reason != tc.want.Reason || !got.RetryAt.Equal(tc.want.RetryAt) {
				t.Errorf("observe() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestPausesGrow(t *testing.T) {
	since := noon
	requested := noon
	var pauses []time.Duration
	for range 8 {
		next := retryAt(requested, since)
		pauses = append(pauses, next.Sub(requested))
		requested = next
	}
	want := []time.Duration{30 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		8 * time.Minute, maxRetry, maxRetry}
	for i := range want {
		if pauses[i] != want[i] {
			t.Fatalf("pauses = %v, want %v", pauses, want)
		}
	}
}
