package extension

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// SetCondition returns the list with c in the place of the condition of its type, sorted by type. The times of c are
// set: lastTransitionTime changes with the status, lastUpdateTime with anything.
func SetCondition(list []corev1beta1.Condition, c corev1beta1.Condition, now time.Time) []corev1beta1.Condition {
	c.LastTransitionTime, c.LastUpdateTime = metav1.NewTime(now), metav1.NewTime(now)
	out := slices.Clone(list)
	i := slices.IndexFunc(out, func(old corev1beta1.Condition) bool { return old.Type == c.Type })
	if i < 0 {
		out = append(out, c)
		slices.SortFunc(out, func(a, b corev1beta1.Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
		return out
	}
	if old := out[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Reason == c.Reason && old.Message == c.Message && slices.Equal(old.Codes, c.Codes) {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	out[i] = c
	return out
}
