package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxHandlerLength leaves room for the prefixes of the names that are made from a handler.
const maxHandlerLength = 34

// ValidateExposureClass checks an ExposureClass.
func ValidateExposureClass(class *ExposureClass) field.ErrorList {
	errs := validateMeta(&class.ObjectMeta, false, nameIsLabel)
	path := field.NewPath("handler")
	errs = append(errs, validateLabel(class.Handler, path)...)
	if len(class.Handler) > maxHandlerLength {
		errs = append(errs, field.Invalid(path, class.Handler, "must have at most 34 characters"))
	}
	if scheduling := class.Scheduling; scheduling != nil {
		path := field.NewPath("scheduling")
		errs = append(errs, validateSeedSelector(scheduling.SeedSelector, path.Child("seedSelector"))...)
		errs = append(errs, validateTolerations(scheduling.Tolerations, path.Child("tolerations"))...)
	}
	return errs
}

// ValidateExposureClassUpdate checks a changed ExposureClass.
func ValidateExposureClassUpdate(class, old *ExposureClass) field.ErrorList {
	errs := validateMetaUpdate(&class.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateImmutable(class.Handler, old.Handler, field.NewPath("handler"))...)
	errs = append(errs, validateImmutable(class.Scheduling, old.Scheduling, field.NewPath("scheduling"))...)
	return append(errs, ValidateExposureClass(class)...)
}
