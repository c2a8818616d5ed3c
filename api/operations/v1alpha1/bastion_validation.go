package v1alpha1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateBastion checks a new Bastion.
func ValidateBastion(o *Bastion) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// ValidateBastionUpdate checks a changed Bastion.
func ValidateBastionUpdate(o, old *Bastion) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateBastion(o)...)
}
