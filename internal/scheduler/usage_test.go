package scheduler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
