package v1

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateControllerDeployment checks a new ControllerDeployment.
func ValidateControllerDeployment(o *ControllerDeployment) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSLabel, field.NewPath("metadata"))
}

// ValidateControllerDeploymentUpdate checks a changed ControllerDeployment.
func ValidateControllerDeploymentUpdate(o, old *ControllerDeployment) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&o.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, ValidateControllerDeployment(o)...)
}
