package scheduler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// A place that may have been taken counts until the watch reports the Shoot.
func TestUsageKeepsAttempts(t *testing.T) {
	read := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}}
	newer := read.DeepCopy()
	newer.ResourceVersion = "2"
	var u Usage
	u.Set(read)
	u.Assume(read, "a")
	u.Keep(read, "a")
	if seed, ok := u.Kept(read); !ok || seed != "a" || u.Of("a") != 1 {
		t.Errorf("after the attempt: Kept() = %q, %t, Of(a) = %d, want \"a\", true, 1", seed, ok, u.Of("a"))
	}
	if _, ok := u.Kept(newer); ok {
		t.Error("Kept() is true for another version of the Shoot")
	}
	u.Set(newer)
	if _, ok := u.Kept(read); ok || u.Of("a") != 0 {
		t.Errorf("after the watch has reported the Shoot without seed: Kept() = %t, Of(a) = %d, want false, 0", ok, u.Of("a"))
	}
	u.Assume(read, "a")
	u.Set(newer)
	u.Keep(read, "a")
	if _, ok := u.Kept(read); ok {
		t.Error("Kept() is true although the watch has reported the Shoot before Keep")
	}
}

// A second attempt with the version that the first one has assigned may be refused, because the Shoot itself takes the
// last place. By then the watch may have reported the first one, which stays counted.
func TestUsageRevertsOnlyWhatTheWatchHasNotReported(t *testing.T) {
	read := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "9"}}
	assigned := read.DeepCopy()
	assigned.ResourceVersion, assigned.Spec.SeedName = "10", new("a")
	var u Usage
	u.Set(read)
	u.Assume(read, "a")
	u.Keep(read, "a")
	u.Set(assigned)
	u.Revert(read, "a")
	if n := u.Of("a"); n != 1 {
		t.Errorf("after the second attempt: Of(a) = %d, want 1", n)
	}
	u.Remove(assigned)
	u.Assume(read, "a")
	u.Revert(read, "a")
	if n := u.Of("a"); n != 0 {
		t.Errorf("after an attempt that was refused: Of(a) = %d, want 0", n)
	}
}

// The handler that counts may lag behind the cache that attempts read.
func TestUsageIgnoresWhatIsOlderThanTheAttempt(t *testing.T) {
	old := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "8"}}
	read, assigned := old.DeepCopy(), old.DeepCopy()
	read.ResourceVersion, assigned.ResourceVersion, assigned.Spec.SeedName = "9", "10", new("a")
	var u Usage
	u.Assume(read, "a")
	for _, s := range []*corev1beta1.Shoot{old, read} {
		if u.Set(s) || u.Of("a") != 1 {
			t.Errorf("after the report of version %s: Of(a) = %d, want 1", s.ResourceVersion, u.Of("a"))
		}
	}
	u.Keep(read, "a")
	if _, kept := u.Kept(read); !kept {
		t.Error("the attempt is forgotten by reports of older versions")
	}
	u.Set(assigned)
	if _, kept := u.Kept(read); kept || u.Of("a") != 1 {
		t.Errorf("after its own report: kept %t, Of(a) = %d, want false, 1", kept, u.Of("a"))
	}
}

func TestUsageReportsFreedPlaces(t *testing.T) {
	var u Usage
	s := shoot(func(s *corev1beta1.Shoot) { s.UID = types.UID("1") })
	for _, step := range []struct {
		what            string
		wanted, present *string
		left            bool
	}{
		{"waiting", nil, nil, false},
		{"assigned", new("a"), nil, false},
		{"running", new("a"), new("a"), false},
		{"to be moved", new("b"), new("a"), false},
		{"moved", new("b"), new("b"), true},
	} {
		s.Spec.SeedName, s.Status.SeedName = step.wanted, step.present
		if left := u.Set(s); left != step.left {
			t.Errorf("%s: a place is free: %v, want %v", step.what, left, step.left)
		}
	}
	if !u.Remove(s) || u.Remove(s) {
		t.Error("the end of a Shoot frees its place only once")
	}

	waiting := shoot(func(s *corev1beta1.Shoot) { s.UID = types.UID("2") })
	u.Assume(waiting, "a")
	u.Revert(waiting, "a")
	if u.Of("a") != 0 {
		t.Error("a reverted assumption is still counted")
	}
	u.Assume(waiting, "a")
	elsewhere := waiting.DeepCopy()
	elsewhere.Spec.SeedName = new("b")
	u.Set(elsewhere)
	u.Revert(waiting, "a")
	if u.Of("a") != 0 || u.Of("b") != 1 {
		t.Errorf("an event of the watch is lost: a has %d, b %d", u.Of("a"), u.Of("b"))
	}
}
