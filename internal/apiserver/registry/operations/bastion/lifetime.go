package bastion

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
)

// beat notes a sign of life of the user, and when the Bastion expires without another one. Nothing extends its life
// beyond the maximum.
func beat(bastion *operationsv1alpha1.Bastion, now time.Time) {
	expires := now.Add(operationsv1alpha1.BastionTimeToLive)
	if created := bastion.CreationTimestamp; !created.IsZero() { // A new object may not have one yet.
		if last := created.Add(operationsv1alpha1.BastionMaxLifetime); expires.After(last) {
			expires = last
		}
	}
	bastion.Status.LastHeartbeatTimestamp = &metav1.Time{Time: now}
	bastion.Status.ExpirationTimestamp = &metav1.Time{Time: expires}
}

// keepAlive carries out the operation keepalive, if an update requests it.
func keepAlive(bastion *operationsv1alpha1.Bastion, now time.Time) {
	if bastion.Annotations[corev1beta1.AnnotationOperation] != corev1beta1.OperationKeepalive {
		return
	}
	delete(bastion.Annotations, corev1beta1.AnnotationOperation)
	if bastion.DeletionTimestamp == nil {
		beat(bastion, now)
	}
}
