package v1alpha1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateWorkloadIdentity checks a new WorkloadIdentity.
func ValidateWorkloadIdentity(o *WorkloadIdentity) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// ValidateWorkloadIdentityUpdate checks a changed WorkloadIdentity.
func ValidateWorkloadIdentityUpdate(o, old *WorkloadIdentity) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateWorkloadIdentity(o)...)
}
