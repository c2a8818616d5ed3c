package v1beta1

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FindCondition returns the condition of the type, or nil.
func FindCondition(conditions []Condition, conditionType ConditionType) *Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// SetCondition returns the list with c in the place of the condition of its type, or sorted in by type if there is
// none. The times of c are set: lastTransitionTime changes with the status, lastUpdateTime with anything.
func SetCondition(conditions []Condition, c Condition, now time.Time) []Condition {
	c.LastTransitionTime, c.LastUpdateTime = metav1.NewTime(now), metav1.NewTime(now)
	out := slices.Clone(conditions)
	old := FindCondition(out, c.Type)
	if old == nil {
		out = append(out, c)
		slices.SortFunc(out, func(a, b Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
		return out
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Reason == c.Reason && old.Message == c.Message && slices.Equal(old.Codes, c.Codes) {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	*old = c
	return out
}

// RemoveCondition returns the list without the condition of the type.
func RemoveCondition(conditions []Condition, conditionType ConditionType) []Condition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c Condition) bool { return c.Type == conditionType })
}
