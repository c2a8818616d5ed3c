package v1alpha1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateManagedSeed checks a new ManagedSeed.
func ValidateManagedSeed(o *ManagedSeed) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSLabel, field.NewPath("metadata"))
}

// ValidateManagedSeedUpdate checks a changed ManagedSeed.
func ValidateManagedSeedUpdate(o, old *ManagedSeed) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateManagedSeed(o)...)
}
