package v1alpha1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateCredentialsBinding checks a new CredentialsBinding.
func ValidateCredentialsBinding(o *CredentialsBinding) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// ValidateCredentialsBindingUpdate checks a changed CredentialsBinding.
func ValidateCredentialsBindingUpdate(o, old *CredentialsBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateCredentialsBinding(o)...)
}
