package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the lifetime of credentials, in seconds. The server cuts it to a maximum of its own.
const (
	MinExpirationSeconds int64 = 600
	MaxExpirationSeconds int64 = 1<<32 - 1
)

// ValidateAdminKubeconfigRequest checks a request for an administrator's kubeconfig.
func ValidateAdminKubeconfigRequest(request *AdminKubeconfigRequest) field.ErrorList {
	return validateExpiration(request.Spec.ExpirationSeconds)
}

// ValidateViewerKubeconfigRequest checks a request for a reader's kubeconfig.
func ValidateViewerKubeconfigRequest(request *ViewerKubeconfigRequest) field.ErrorList {
	return validateExpiration(request.Spec.ExpirationSeconds)
}

func validateExpiration(seconds *int64) field.ErrorList {
	if seconds == nil || *seconds >= MinExpirationSeconds && *seconds <= MaxExpirationSeconds {
		return nil
	}
	return field.ErrorList{
		field.Invalid(field.NewPath("spec", "expirationSeconds"), *seconds, "must be between 600 and 4294967295"),
	}
}
