package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateSecretBinding checks a new SecretBinding.
func ValidateSecretBinding(binding *SecretBinding) field.ErrorList {
	errs := validateSecretBinding(binding)
	if binding.Provider == nil {
		errs = append(errs, field.Required(field.NewPath("provider"), "must be given"))
	}
	return errs
}

func validateSecretBinding(binding *SecretBinding) field.ErrorList {
	errs := validateMeta(&binding.ObjectMeta, true, nameIsSubdomain)
	path := field.NewPath("secretRef")
	if errsName := validateRequired(binding.SecretRef.Name, path.Child("name")); errsName != nil {
		errs = append(errs, errsName...)
	} else {
		errs = append(errs, validateSubdomain(binding.SecretRef.Name, path.Child("name"))...)
	}
	if binding.SecretRef.Namespace != "" {
		errs = append(errs, validateLabel(binding.SecretRef.Namespace, path.Child("namespace"))...)
	}
	for i, quota := range binding.Quotas {
		errs = append(errs, validateRequired(quota.Name, field.NewPath("quotas").Index(i).Child("name"))...)
	}
	if binding.Provider != nil {
		errs = append(errs, validateRequired(binding.Provider.Type, field.NewPath("provider", "type"))...)
	}
	return errs
}

// ValidateSecretBindingUpdate checks a changed SecretBinding.
func ValidateSecretBindingUpdate(binding, old *SecretBinding) field.ErrorList {
	errs := validateMetaUpdate(&binding.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateImmutable(binding.SecretRef, old.SecretRef, field.NewPath("secretRef"))...)
	errs = append(errs, validateImmutable(binding.Quotas, old.Quotas, field.NewPath("quotas"))...)
	errs = append(errs, validateImmutableOnceSet(binding.Provider, old.Provider, field.NewPath("provider"))...)
	return append(errs, validateSecretBinding(binding)...)
}
