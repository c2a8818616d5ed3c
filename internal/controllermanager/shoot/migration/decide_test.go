package migration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func movingShoot() *corev1beta1.Shoot {
	return &corev1beta1.Shoot{
		Spec: corev1beta1.ShootSpec{SeedName: ptr.To("there")},
		Status: corev1beta1.ShootStatus{
			SeedName: ptr.To("here"), Gardener: corev1beta1.Gardener{Version: "v1"},
		},
	}
}

func readySeed() *corev1beta1.Seed {
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "there", Generation: 2}, Status: corev1beta1.SeedStatus{
		Gardener: &corev1beta1.Gardener{Version: "v1"}, ObservedGeneration: 2,
	}}
	for _, kind := range needed {
		seed.Status.Conditions = append(seed.Status.Conditions,
			corev1beta1.Condition{Type: kind, Status: corev1beta1.ConditionTrue})
	}
	return seed
}

func TestConstraint(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*corev1beta1.Seed) *corev1beta1.Seed
		reason, message string
	}{
		"ready": {
			func(s *corev1beta1.Seed) *corev1beta1.Seed { return s }, ReasonReady, "Seed there can take over the control plane.",
		},
		"gone": {func(*corev1beta1.Seed) *corev1beta1.Seed { return nil }, ReasonUnready, "Seed there does not exist."},
		"going": {func(s *corev1beta1.Seed) *corev1beta1.Seed {
			s.DeletionTimestamp = &metav1.Time{}
			return s
		}, ReasonInDeletion, "Seed there is being deleted."},
		"another version": {func(s *corev1beta1.Seed) *corev1beta1.Seed {
			s.Status.Gardener.Version = "v2"
			return s
		}, ReasonUnready, "The gardenlet of Seed there has version v2, the one that runs the control plane now has v1."},
		"never started": {func(s *corev1beta1.Seed) *corev1beta1.Seed {
			s.Status.Gardener = nil
			return s
		}, ReasonUnready, "The gardenlet of Seed there has not registered its version yet."},
		"just changed": {func(s *corev1beta1.Seed) *corev1beta1.Seed {
			s.Generation = 3
			return s
		}, ReasonUnready, "Seed there has not been reconciled since its last change."},
		"bucket broken": {func(s *corev1beta1.Seed) *corev1beta1.Seed {
			s.Status.Conditions[2].Status, s.Status.Conditions[2].Message = corev1beta1.ConditionFalse, "No bucket."
			return s
		}, ReasonUnready, "Condition BackupBucketsReady of Seed there is False: No bucket."},
		"condition missing": {func(s *corev1beta1.Seed) *corev1beta1.Seed {
			s.Status.Conditions = s.Status.Conditions[1:]
			return s
		}, ReasonUnready, "Seed there has no condition GardenletReady."},
	} {
		t.Run(name, func(t *testing.T) {
			c := constraintFor(movingShoot(), tc.change(readySeed()))
			if c.Reason != tc.reason || c.Message != tc.message {
				t.Errorf("got %s: %s", c.Reason, c.Message)
			}
			if (c.Status == corev1beta1.ConditionTrue) != (tc.reason == ReasonReady) {
				t.Errorf("status %s with reason %s", c.Status, c.Reason)
			}
		})
	}
}

func TestMoving(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, status *string
		want         bool
	}{
		"not scheduled":      {nil, nil, false},
		"not begun":          {ptr.To("a"), nil, false},
		"where it should":    {ptr.To("a"), ptr.To("a"), false},
		"somewhere else":     {ptr.To("b"), ptr.To("a"), true},
		"cancelled":          {ptr.To("a"), ptr.To("a"), false},
		"no seed any longer": {nil, ptr.To("a"), false},
	} {
		shoot := &corev1beta1.Shoot{
			Spec: corev1beta1.ShootSpec{SeedName: tc.spec}, Status: corev1beta1.ShootStatus{SeedName: tc.status},
		}
		if got := moving(shoot); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
