package shoot

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

func TestShootsOfAnOlderGarden(t *testing.T) {
	newer := corev1beta1.ShootSpec{SeedName: ptr.To("s1"), Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"}}
	seen := func(change func(*Remembered)) *Remembered {
		r := &Remembered{Cluster: true, UID: "u", Generation: 5, Spec: newer, Started: now.Add(-time.Hour)}
		if change != nil {
			change(r)
		}
		return r
	}
	for name, tc := range map[string]struct {
		seen   *Remembered
		change func(*corev1beta1.Shoot)
		in     func(*DecideInput)
		want   Action
		begin  bool
		text   string
	}{
		"nothing is known": {want: Drop},
		"as it was rolled out": {
			seen: seen(func(r *Remembered) { r.Generation = 3; r.Spec.Kubernetes.Version = "1.35.4" }), want: Drop,
		},
		"an older specification": {seen: seen(nil), want: Hold, text: "(generation 3)"},
		"an older specification is confirmed": {
			seen: seen(nil), change: annotated(corev1beta1.AnnotationConfirmOlderSpec), want: Drop,
		},
		"the same specification, older object": {
			seen: seen(func(r *Remembered) { r.Spec.Kubernetes.Version = "1.35.4" }), want: Drop,
		},
		"another Shoot with the same name": {seen: seen(func(r *Remembered) { r.UID = "old" }), want: Drop},
		"held, then confirmed": {
			seen: seen(nil), change: both(held(taskOlderSpec),
				annotated(corev1beta1.AnnotationConfirmOlderSpec)), want: Run, begin: true,
		},
		"held, then the newest specification is applied": {
			seen: seen(nil), change: both(held(taskOlderSpec), func(s *corev1beta1.Shoot) { s.Spec, s.Generation = newer, 4 }),
			want: Run, begin: true,
		},
		"held, then edited several times": {
			seen: seen(nil), change: both(held(taskOlderSpec), func(s *corev1beta1.Shoot) { s.Generation = 9 }), want: Hold,
			text: "(generation 9)",
		},
		"held, then deleted": {
			seen: seen(nil), change: both(held(taskOlderSpec), deleted, func(s *corev1beta1.Shoot) { s.Generation++ }),
			want: Run, begin: true,
		},
		"held on a seed that is stopped": {
			seen: seen(nil), change: held(taskOlderSpec), in: func(in *DecideInput) { in.EmergencyStop = true }, want: Drop,
		},
		"no control plane": {seen: &Remembered{}, want: Hold, text: "does not exist on Seed \"s1\""},
		"no control plane, confirmed": {
			seen: &Remembered{}, change: annotated(corev1beta1.AnnotationConfirmNewControlPlane), want: Drop,
		},
		"no control plane, held and confirmed": {
			seen: &Remembered{}, change: both(held(taskLostControlPlane),
				annotated(corev1beta1.AnnotationConfirmNewControlPlane)), want: Run, begin: true,
		},
		"a namespace without Cluster": {seen: &Remembered{Namespace: true}, want: Drop},
		"no control plane yet": {
			seen: &Remembered{}, change: operation(corev1beta1.LastOperationTypeCreate, "Error"), want: Run,
		},
		"moving here": {
			seen: &Remembered{}, change: operation(corev1beta1.LastOperationTypeMigrate, "Succeeded"), want: Run, begin: true,
		},
		"an older status": {
			seen: seen(func(r *Remembered) { r.Generation = 3; r.Started = now }), want: Run, begin: true,
		},
		"a status from the same second": {
			seen: seen(func(r *Remembered) { r.Generation = 3; r.Started = now.Add(-time.Minute + time.Millisecond) }),
			want: Drop,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 3, Finalizers: []string{corev1beta1.FinalizerName}},
				Spec:       corev1beta1.ShootSpec{SeedName: ptr.To("s1"), Kubernetes: corev1beta1.Kubernetes{Version: "1.35.4"}},
				Status: corev1beta1.ShootStatus{
					UID: "u", TechnicalID: "shoot--dev--a", SeedName: ptr.To("s1"), ObservedGeneration: 3,
					Gardener: corev1beta1.Gardener{Version: "v1"},
					LastOperation: &corev1beta1.LastOperation{
						Type: corev1beta1.LastOperationTypeReconcile, State: "Succeeded",
						LastUpdateTime: metav1.Time{Time: now.Add(-time.Minute)},
					},
				},
			}
			if tc.change != nil {
				tc.change(s)
			}
			in := DecideInput{
				SeedName: "s1", Now: now, Version: "v1", Options: maintenance.ReconcileOptions{SyncPeriod: time.Hour},
				Jitter: maintenance.HashJitter(0), Seen: tc.seen,
			}
			if name == "the same specification, older object" {
				s.Generation, s.Status.ObservedGeneration = 4, 4
			}
			if tc.in != nil {
				tc.in(&in)
			}
			d := Decide(s, in)
			if d.Action != tc.want || d.Begin != tc.begin || !strings.Contains(d.Reason, tc.text) {
				t.Errorf("Decide() = %+v, want %s, begin %v", d, tc.want, tc.begin)
			}
		})
	}
}

func annotated(name string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, name, "true") }
}

func held(task string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		s.Status.LastErrors = []corev1beta1.LastError{{TaskID: ptr.To(task)}}
		s.Status.LastOperation.State = corev1beta1.LastOperationStateFailed
	}
}

func operation(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) { s.Status.LastOperation.Type, s.Status.LastOperation.State = kind, state }
}

func both(changes ...func(*corev1beta1.Shoot)) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		for _, change := range changes {
			change(s)
		}
	}
}

func TestUpdatesThatMakeAShootOlderMatter(t *testing.T) {
	at := func(generation int64, seconds int64) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
		if seconds > 0 {
			s.Status.LastOperation = &corev1beta1.LastOperation{LastUpdateTime: metav1.Unix(seconds, 0)}
		}
		return s
	}
	got := []bool{
		wentBack(at(2, 10), at(1, 10)), wentBack(at(2, 10), at(2, 9)), wentBack(at(2, 10), at(2, 0)),
		wentBack(at(2, 10), at(2, 11)), wentBack(at(2, 10), at(3, 10)), wentBack(at(2, 0), at(2, 10)),
	}
	if diff := cmp.Diff([]bool{true, true, true, false, false, false}, got); diff != "" {
		t.Errorf("wentBack() mismatch (-want +got):\n%s", diff)
	}
}
