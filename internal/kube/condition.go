package kube

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Condition returns the condition of the type, or nil.
func Condition(conditions []corev1beta1.Condition, kind corev1beta1.ConditionType) *corev1beta1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// SetCondition puts c into the list, replacing the one of its type, and sets its times: lastTransitionTime changes with
// the status, lastUpdateTime with anything. The list stays sorted by type.
func SetCondition(conditions []corev1beta1.Condition, c corev1beta1.Condition, now time.Time) []corev1beta1.Condition {
	old := Condition(conditions, c.Type)
	c.LastTransitionTime, c.LastUpdateTime = metav1.Time{Time: now}, metav1.Time{Time: now}
	if old == nil {
		out := append(slices.Clone(conditions), c)
		slices.SortFunc(out, func(a, b corev1beta1.Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
		return out
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Reason == c.Reason && old.Message == c.Message && slices.Equal(old.Codes, c.Codes) {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	*old = c
	return conditions
}

// RemoveCondition drops the condition of the type.
func RemoveCondition(conditions []corev1beta1.Condition, kind corev1beta1.ConditionType) []corev1beta1.Condition {
	return slices.DeleteFunc(conditions, func(c corev1beta1.Condition) bool { return c.Type == kind })
}
