package v1alpha1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a token's lifetime, in seconds.
const (
	minExpirationSeconds = 600
	maxExpirationSeconds = 1<<32 - 1
)

// ValidateWorkloadIdentity checks a WorkloadIdentity.
func ValidateWorkloadIdentity(identity *WorkloadIdentity) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&identity.ObjectMeta, true, apivalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	path := field.NewPath("spec", "audiences")
	if len(identity.Spec.Audiences) == 0 {
		errs = append(errs, field.Required(path, "must list at least one audience"))
	}
	seen := map[string]bool{}
	for i, audience := range identity.Spec.Audiences {
		switch {
		case audience == "":
			errs = append(errs, field.Required(path.Index(i), "must not be empty"))
		case seen[audience]:
			errs = append(errs, field.Duplicate(path.Index(i), audience))
		}
		seen[audience] = true
	}
	if identity.Spec.TargetSystem.Type == "" {
		errs = append(errs, field.Required(field.NewPath("spec", "targetSystem", "type"), "must be given"))
	}
	return errs
}

// ValidateWorkloadIdentityUpdate checks a changed WorkloadIdentity. Its subject and target stay, because trust is built
// on them.
func ValidateWorkloadIdentityUpdate(identity, old *WorkloadIdentity) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&identity.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, immutable(identity.Spec.TargetSystem.Type, old.Spec.TargetSystem.Type,
		field.NewPath("spec", "targetSystem", "type"))...)
	if old.Status.Sub != "" {
		errs = append(errs, immutable(identity.Status.Sub, old.Status.Sub, field.NewPath("status", "sub"))...)
	}
	return append(errs, ValidateWorkloadIdentity(identity)...)
}

// ValidateTokenRequest checks a request for a token.
func ValidateTokenRequest(request *TokenRequest) field.ErrorList {
	var errs field.ErrorList
	if seconds := request.Spec.ExpirationSeconds; seconds != nil &&
		(*seconds < minExpirationSeconds || *seconds > maxExpirationSeconds) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "expirationSeconds"), *seconds,
			"must be between 600 and 4294967295"))
	}
	object, path := request.Spec.ContextObject, field.NewPath("spec", "contextObject")
	if object == nil {
		return errs
	}
	for _, part := range []struct{ name, value string }{
		{"apiVersion", object.APIVersion}, {"kind", object.Kind}, {"name", object.Name}, {"uid", string(object.UID)},
	} {
		if part.value == "" {
			errs = append(errs, field.Required(path.Child(part.name), "must be given"))
		}
	}
	return errs
}
