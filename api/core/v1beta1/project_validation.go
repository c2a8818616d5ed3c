package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateProject checks a Project.
func ValidateProject(o *Project) field.ErrorList { return validateMeta(&o.ObjectMeta, false, nameIsSubdomain) }

// ValidateProjectUpdate checks a changed Project.
func ValidateProjectUpdate(o, old *Project) field.ErrorList {
	return append(validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateProject(o)...)
}

// ValidateProjectStatusUpdate checks a changed status.
func ValidateProjectStatusUpdate(o, old *Project) field.ErrorList { return nil }
