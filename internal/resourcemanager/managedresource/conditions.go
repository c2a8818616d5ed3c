package managedresource

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// setCondition writes one condition into the status. Times change only when the condition does.
func setCondition(
	mr *resourcesv1alpha1.ManagedResource, now time.Time, kind corev1beta1.ConditionType,
	status corev1beta1.ConditionStatus, reason, message string,
) {
	i := slices.IndexFunc(mr.Status.Conditions, func(c corev1beta1.Condition) bool { return c.Type == kind })
	if i < 0 {
		mr.Status.Conditions = append(mr.Status.Conditions, corev1beta1.Condition{Type: kind})
		i = len(mr.Status.Conditions) - 1
	}
	c := &mr.Status.Conditions[i]
	if c.Status == status && c.Reason == reason && c.Message == message {
		return
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	if c.Status != status {
		c.LastTransitionTime = at
	}
	c.Status, c.Reason, c.Message, c.LastUpdateTime = status, reason, message, at
}

// condition returns the status of a condition, empty if it is not there.
func condition(mr *resourcesv1alpha1.ManagedResource, kind corev1beta1.ConditionType) corev1beta1.ConditionStatus {
	for _, c := range mr.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}
