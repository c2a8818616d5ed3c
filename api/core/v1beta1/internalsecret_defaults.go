package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
)

// SetDefaultsInternalSecret fills the empty fields of an InternalSecret that have a default.
func SetDefaultsInternalSecret(secret *InternalSecret) {
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
}
