package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateControllerDeployment checks a ControllerDeployment.
func ValidateControllerDeployment(o *ControllerDeployment) field.ErrorList { return validateMeta(&o.ObjectMeta, false, nameIsLabel) }

// ValidateControllerDeploymentUpdate checks a changed ControllerDeployment.
func ValidateControllerDeploymentUpdate(o, old *ControllerDeployment) field.ErrorList {
	return append(validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateControllerDeployment(o)...)
}
