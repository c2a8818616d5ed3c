package steps

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)

// reconciled is an object whose extension completed its request ten seconds ago.
func reconciled() *extensionsv1alpha1.Worker {
	w := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Generation: 2, Annotations: map[string]string{
			extensionsv1alpha1.AnnotationTimestamp: now.Add(-10 * time.Second).Format(time.RFC3339Nano),
		},
	}}
	w.Status.ObservedGeneration = 2
	w.Status.LastOperation = &corev1beta1.LastOperation{
		State: corev1beta1.LastOperationStateSucceeded, LastUpdateTime: metav1.Time{Time: now.Add(-5 * time.Second)},
	}
	return w
}

func TestExtensionOutcome(t *testing.T) {
	failed := func(ago time.Duration, codes ...corev1beta1.ErrorCode) func(*extensionsv1alpha1.Worker) {
		return func(w *extensionsv1alpha1.Worker) {
			w.Annotations[extensionsv1alpha1.AnnotationTimestamp] = now.Add(-ago).Format(time.RFC3339Nano)
			w.Status.LastError = &corev1beta1.LastError{Description: "no machines", Codes: codes}
		}
	}
	for name, tc := range map[string]struct {
		change func(*extensionsv1alpha1.Worker)
		reason string // Reason for waiting; "" if done.
		codes  []string
	}{
		"done":                           {func(*extensionsv1alpha1.Worker) {}, "", nil},
		"the spec has not been observed": {func(w *extensionsv1alpha1.Worker) { w.Generation = 3 }, "not been observed", nil},
		"the request is still there": {func(w *extensionsv1alpha1.Worker) {
			w.Annotations[extensionsv1alpha1.AnnotationOperation] = "reconcile"
		}, "waits for its extension", nil},
		"never reconciled": {
			func(w *extensionsv1alpha1.Worker) { w.Status.LastOperation = nil }, "not been reconciled yet", nil,
		},
		"in the middle": {
			func(w *extensionsv1alpha1.Worker) { w.Status.LastOperation.State = "Processing" }, "Worker a", nil,
		},
		"success from before the request": {func(w *extensionsv1alpha1.Worker) {
			w.Status.LastOperation.LastUpdateTime.Time = now.Add(-12 * time.Second)
		}, "since it was requested", nil},
		"success in the second of the request": {func(w *extensionsv1alpha1.Worker) {
			w.Status.LastOperation.LastUpdateTime.Time = now.Add(-10 * time.Second).Truncate(time.Second)
		}, "", nil},
		"no timestamp": {
			func(w *extensionsv1alpha1.Worker) { w.Annotations = nil }, "no valid timestamp", nil,
		},
		"an error without codes is tolerated": {failed(9 * time.Minute), "no machines", nil},
		"an error without codes that lasts":   {failed(10 * time.Minute), "", nil},
		"an error with codes is tolerated at first": {
			failed(29*time.Second, corev1beta1.ErrorInfraQuotaExceeded), "no machines", nil,
		},
		"an error with codes that lasts": {
			failed(31*time.Second, corev1beta1.ErrorInfraQuotaExceeded), "", []string{"ERR_INFRA_QUOTA_EXCEEDED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := reconciled()
			tc.change(w)
			got, err := extensionOutcome("Worker", w, now, 30*time.Second)
			if codes := flow.Codes(err); !slices.Equal(codes, tc.codes) {
				t.Fatalf("error = %v with codes %v, want codes %v", err, codes, tc.codes)
			}
			if err == nil && (got.IsDone() != (tc.reason == "") || !strings.Contains(got.Reason(), tc.reason)) {
				t.Errorf("outcome = %+v, want reason %q", got, tc.reason)
			}
		})
	}
}

func TestTolerance(t *testing.T) {
	for name, tc := range map[string]struct {
		codes        []corev1beta1.ErrorCode
		severe, want time.Duration
	}{
		"providers get time to complete their own changes": {
			[]corev1beta1.ErrorCode{corev1beta1.ErrorInfraDependencies, corev1beta1.ErrorConfigurationProblem},
			severeInfrastructure, severeInfrastructure,
		},
		"errors that may pass get it, too": {
			[]corev1beta1.ErrorCode{corev1beta1.ErrorInfraRateLimitsExceeded, corev1beta1.ErrorInfraResourcesDepleted},
			severeInfrastructure, severeInfrastructure,
		},
		"wrong credentials": {
			[]corev1beta1.ErrorCode{corev1beta1.ErrorInfraUnauthenticated}, severeInfrastructure, severeDefault,
		},
		"missing rights": {
			[]corev1beta1.ErrorCode{corev1beta1.ErrorInfraUnauthorized}, severeInfrastructure, severeDefault,
		},
		"an exceeded quota, among others": {
			[]corev1beta1.ErrorCode{corev1beta1.ErrorConfigurationProblem, corev1beta1.ErrorInfraQuotaExceeded},
			severeInfrastructure, severeDefault,
		},
		"no code":                  {nil, severeDefault, uncodedTolerance},
		"never longer than others": {[]corev1beta1.ErrorCode{corev1beta1.ErrorInfraUnauthorized}, severeDNS, severeDNS},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tolerance(tc.codes, tc.severe); got != tc.want {
				t.Errorf("tolerance() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestTriggerDue(t *testing.T) {
	before, after := now.Add(-time.Minute), now // Starts of the operation, before and after the request.
	for name, tc := range map[string]struct {
		change  func(*extensionsv1alpha1.Worker)
		trigger trigger
		task    bool
		started time.Time
		want    string
	}{
		"requested in this operation":         {started: before},
		"not requested in this operation yet": {started: after, want: "the Shoot is being reconciled"},
		"not needed":                          {trigger: triggerIfNeeded, started: after},
		"not needed, but demanded by a task": {
			trigger: triggerIfNeeded, task: true, started: after, want: "a task of the Shoot demands it",
		},
		"a task requests once": {trigger: triggerIfNeeded, task: true, started: before},
		"needed since it has not succeeded": {
			change: func(w *extensionsv1alpha1.Worker) { w.Status.LastOperation.State = "Error" }, trigger: triggerIfNeeded,
			started: after, want: "its last operation has not succeeded",
		},
		"needed since the last request was not handled": {
			change:  func(w *extensionsv1alpha1.Worker) { w.Status.LastOperation.LastUpdateTime.Time = now.Add(-time.Hour) },
			trigger: triggerIfNeeded, started: after, want: "its last request was not answered",
		},
		"never requested": {
			change: func(w *extensionsv1alpha1.Worker) { w.Annotations = nil }, trigger: triggerIfNeeded, started: before,
			want: "nothing was requested of it yet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := reconciled()
			if tc.change != nil {
				tc.change(w)
			}
			if got := triggerDue(w, tc.trigger, tc.task, tc.started); got != tc.want {
				t.Errorf("triggerDue() = %q, want %q", got, tc.want)
			}
		})
	}
}

// What the garden has kept of an object replaces what another seed has made obsolete, and nothing newer.
func TestOwnState(t *testing.T) {
	started := &metav1.Time{Time: now}
	released := func(ago time.Duration) func(*extensionsv1alpha1.Worker) {
		return func(w *extensionsv1alpha1.Worker) {
			w.Status.LastOperation.Type = corev1beta1.LastOperationTypeMigrate
			w.Status.LastOperation.LastUpdateTime = metav1.Time{Time: now.Add(-ago)}
		}
	}
	state := func(w *extensionsv1alpha1.Worker) { w.Status.State = &runtime.RawExtension{Raw: []byte(`{}`)} }
	for name, tc := range map[string]struct {
		changes []func(*extensionsv1alpha1.Worker)
		started *metav1.Time
		want    bool
	}{
		"new": {[]func(*extensionsv1alpha1.Worker){
			func(w *extensionsv1alpha1.Worker) { w.Status.LastOperation = nil },
		}, started, false},
		"it has got the state": {[]func(*extensionsv1alpha1.Worker){
			func(w *extensionsv1alpha1.Worker) { w.Status.LastOperation = nil }, state,
		}, started, true},
		"released by a migration that was cancelled": {
			[]func(*extensionsv1alpha1.Worker){released(-time.Minute)}, started, true,
		},
		"released at once, with another clock": {
			[]func(*extensionsv1alpha1.Worker){released(clockSkew), state}, started, true,
		},
		"left by an earlier migration": {
			[]func(*extensionsv1alpha1.Worker){released(time.Minute), state}, started, false,
		},
		"released, but it is not known when the migration began": {
			[]func(*extensionsv1alpha1.Worker){released(time.Minute), state}, nil, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := reconciled()
			for _, change := range tc.changes {
				change(w)
			}
			if got := ownState(w, tc.started); got != tc.want {
				t.Errorf("ownState() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestHostsOfAShoot(t *testing.T) {
	s := testScope("pool")
	if got := s.APIHosts(); !slices.Equal(got,
		[]string{"api.a.dev.internal.local.hortus.dev", "api.a.dev.local.hortus.dev"}) {
		t.Errorf("APIHosts() = %v", got)
	}
	s.SeedObject.Spec.DNS.Internal.Domain = "example.com"
	if got := s.InternalDomain(); got != "a.dev.internal.example.com" {
		t.Errorf("InternalDomain() = %q, want the word internal in it", got)
	}
}

func TestServiceIP(t *testing.T) {
	for _, tc := range []struct {
		cidr string
		n    int
		want string
	}{{"100.64.0.0/16", 1, "100.64.0.1"}, {"100.64.0.0/16", 10, "100.64.0.10"}, {"10.0.0.128/25", 10, "10.0.0.138"},
		{"10.0.0.0/30", 10, ""}, {"nonsense", 1, ""}} {
		got, err := serviceIP(tc.cidr, tc.n)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("serviceIP(%q, %d) = %q, %v, want %q", tc.cidr, tc.n, got, err, tc.want)
		}
	}
}
