package v1beta1

import (
	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateControllerInstallation checks a ControllerInstallation.
func ValidateControllerInstallation(installation *ControllerInstallation) field.ErrorList {
	errs := validateMeta(&installation.ObjectMeta, false, nameIsLabel)
	spec := &installation.Spec
	errs = append(errs, validateRequired(spec.RegistrationRef.Name, specPath.Child("registrationRef", "name"))...)
	switch {
	case spec.SeedRef == nil && spec.ShootRef == nil, spec.SeedRef != nil && spec.ShootRef != nil:
		errs = append(errs, field.Forbidden(specPath.Child("seedRef"), "exactly one of seedRef and shootRef must be given"))
	case spec.SeedRef != nil:
		errs = append(errs, validateRequired(spec.SeedRef.Name, specPath.Child("seedRef", "name"))...)
	default:
		errs = append(errs, validateRequired(spec.ShootRef.Name, specPath.Child("shootRef", "name"))...)
		errs = append(errs, validateRequired(spec.ShootRef.Namespace, specPath.Child("shootRef", "namespace"))...)
	}
	return errs
}

// ValidateControllerInstallationUpdate checks a changed ControllerInstallation.
func ValidateControllerInstallationUpdate(installation, old *ControllerInstallation) field.ErrorList {
	errs := validateMetaUpdate(&installation.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateFrozen(&installation.ObjectMeta, &old.ObjectMeta, installation.Spec, old.Spec)...)
	name := func(ref *corev1.ObjectReference) string {
		if ref == nil {
			return ""
		}
		return ref.Namespace + "/" + ref.Name
	}
	errs = append(errs, validateImmutable(installation.Spec.RegistrationRef.Name, old.Spec.RegistrationRef.Name,
		specPath.Child("registrationRef", "name"))...)
	errs = append(errs, validateImmutable(name(installation.Spec.SeedRef), name(old.Spec.SeedRef),
		specPath.Child("seedRef", "name"))...)
	errs = append(errs, validateImmutable(name(installation.Spec.ShootRef), name(old.Spec.ShootRef),
		specPath.Child("shootRef", "name"))...)
	return append(errs, ValidateControllerInstallation(installation)...)
}
