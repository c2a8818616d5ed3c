package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateShootState checks a ShootState.
func ValidateShootState(state *ShootState) field.ErrorList {
	errs := validateMeta(&state.ObjectMeta, true, nameIsLabel)
	for i, data := range state.Spec.Gardener {
		if data.Name == "" {
			errs = append(errs, field.Invalid(specPath.Child("gardener").Index(i).Child("name"), data.Name, "must be given"))
		}
	}
	for i, extension := range state.Spec.Extensions {
		path := specPath.Child("extensions").Index(i)
		if extension.Kind == "" {
			errs = append(errs, field.Invalid(path.Child("kind"), extension.Kind, "must be given"))
		}
		if extension.Purpose != nil && *extension.Purpose == "" {
			errs = append(errs, field.Invalid(path.Child("purpose"), *extension.Purpose, "must not be empty"))
		}
	}
	for i, resource := range state.Spec.Resources {
		path := specPath.Child("resources").Index(i)
		for _, part := range []struct{ name, value string }{
			{"kind", resource.Kind}, {"name", resource.Name}, {"apiVersion", resource.APIVersion},
		} {
			if part.value == "" {
				errs = append(errs, field.Invalid(path.Child(part.name), part.value, "must be given"))
			}
		}
	}
	return errs
}
