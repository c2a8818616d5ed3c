package bastion

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

func at(after time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(after)} }

func aBastion() *operationsv1alpha1.Bastion {
	return &operationsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "cli-1", CreationTimestamp: *at(0)},
		Spec: operationsv1alpha1.BastionSpec{
			ShootRef: corev1.LocalObjectReference{Name: "apple"}, SeedName: ptr.To("blue"),
		},
		Status: operationsv1alpha1.BastionStatus{LastHeartbeatTimestamp: at(0), ExpirationTimestamp: at(time.Hour)},
	}
}

func aShoot() *corev1beta1.Shoot {
	return &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "apple"},
		Spec: corev1beta1.ShootSpec{SeedName: ptr.To("blue"), Provider: corev1beta1.Provider{
			Type: "local", Workers: make([]corev1beta1.Worker, 1),
		}},
	}
}

func TestAbandoned(t *testing.T) {
	for name, tc := range map[string]struct {
		bound, on, dead string
		want            bool
	}{
		"the Shoot stays":                        {bound: "blue", on: "blue"},
		"it moves away":                          {bound: "red", on: "blue"},
		"it has moved away":                      {bound: "red", on: "red", want: true},
		"the seed is gone":                       {bound: "red", on: "blue", dead: "blue", want: true},
		"it was taken over":                      {bound: "red", on: "red", dead: "blue", want: true},
		"it moves here":                          {bound: "blue", on: "red"},
		"it moves here from a seed that is gone": {bound: "blue", on: "red", dead: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			s := aShoot()
			s.Spec.SeedName, s.Status.SeedName = ptr.To(tc.bound), ptr.To(tc.on)
			s.Annotations = map[string]string{corev1beta1.AnnotationSourceIsDead: tc.dead}
			if got := abandoned(aBastion(), s); got != tc.want {
				t.Errorf("abandoned() = %t, want %t", got, tc.want)
			}
		})
	}
	if abandoned(aBastion(), nil) {
		t.Error("a Bastion without Shoot is abandoned")
	}
}

// Each change that may delete or release a Bastion has its reconciliation.
func TestLeaves(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1beta1.Shoot)
		want   bool
	}{
		"nothing":      {func(*corev1beta1.Shoot) {}, false},
		"another seed": {func(s *corev1beta1.Shoot) { s.Spec.SeedName = ptr.To("red") }, true},
		"a hand-over":  {func(s *corev1beta1.Shoot) { s.Status.SeedName = ptr.To("red") }, true},
		"the end of its seed": {func(s *corev1beta1.Shoot) {
			s.Annotations = map[string]string{corev1beta1.AnnotationSourceIsDead: "blue"}
		}, true},
	} {
		old, now := aShoot(), aShoot()
		old.Status.SeedName, now.Status.SeedName = ptr.To("blue"), ptr.To("blue")
		tc.change(now)
		if got := leaves.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}); got != tc.want {
			t.Errorf("%s: a reconciliation: %t, want %t", name, got, tc.want)
		}
	}
}

func TestDecide(t *testing.T) {
	type bastion = operationsv1alpha1.Bastion
	type shoot = corev1beta1.Shoot
	same := func(s *shoot) *shoot { return s }
	for name, tc := range map[string]struct {
		bastion func(*bastion)
		shoot   func(*shoot) *shoot
		now     time.Duration
		reason  string
		check   time.Duration
	}{
		"it is alive": {func(*bastion) {}, same, 59 * time.Minute, "", time.Hour},
		"it expires":  {func(*bastion) {}, same, time.Hour, "since 2030-06-01T12:00:00Z", 0},
		"nothing is known of it": {
			func(b *bastion) { b.Status = operationsv1alpha1.BastionStatus{} }, same, 2 * time.Hour, "", 24 * time.Hour,
		},
		"it is too old": {
			func(b *bastion) { b.Status.ExpirationTimestamp = at(48 * time.Hour) }, same, 24 * time.Hour, "older than 24h", 0,
		},
		"it will be too old": {
			func(b *bastion) { b.Status.ExpirationTimestamp = at(48 * time.Hour) }, same, 23 * time.Hour, "", 24 * time.Hour,
		},
		"the Shoot is gone": {func(*bastion) {}, func(*shoot) *shoot { return nil }, 0, "does not exist", 0},
		"the Shoot is being deleted": {
			func(*bastion) {}, func(s *shoot) *shoot { s.DeletionTimestamp = at(0); return s }, 0, "being deleted", 0,
		},
		"the Shoot moves": {
			func(*bastion) {}, func(s *shoot) *shoot { s.Spec.SeedName = ptr.To("red"); return s }, 0, "another Seed", 0,
		},
		"the Shoot has no SSH access": {
			func(*bastion) {}, func(s *shoot) *shoot {
				s.Spec.Provider.WorkersSettings = &corev1beta1.WorkersSettings{SSHAccess: &corev1beta1.SSHAccess{}}
				return s
			}, 0, "no SSH access", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := aBastion()
			tc.bastion(b)
			got := decide(b, tc.shoot(aShoot()), noon.Add(tc.now))
			if (got.Reason == "") != (tc.reason == "") || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("the reason is %q, want %q", got.Reason, tc.reason)
			}
			if tc.reason == "" && !got.CheckAt.Equal(noon.Add(tc.check)) {
				t.Errorf("the next check is at %v, want %v", got.CheckAt, noon.Add(tc.check))
			}
		})
	}
}
