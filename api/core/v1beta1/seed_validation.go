package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateSeed checks a Seed.
func ValidateSeed(o *Seed) field.ErrorList { return validateMeta(&o.ObjectMeta, false, nameIsLabel) }

// ValidateSeedUpdate checks a changed Seed.
func ValidateSeedUpdate(o, old *Seed) field.ErrorList {
	return append(validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateSeed(o)...)
}

// ValidateSeedStatusUpdate checks a changed status.
func ValidateSeedStatusUpdate(o, old *Seed) field.ErrorList { return nil }
