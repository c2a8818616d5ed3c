package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateShoot checks a complete new Shoot: defaults are set, and admission has filled in versions and images.
func ValidateShoot(shoot *Shoot) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateMeta(&shoot.ObjectMeta, true, nameIsLabel)...)
	errs = append(errs, noDoubleHyphen(shoot.Name, field.NewPath("metadata", "name"))...)
	return append(errs, validateShootSpec(shoot, field.NewPath("spec"))...)
}

// ValidateShootUpdate checks a changed Shoot.
func ValidateShootUpdate(shoot, old *Shoot) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateMetaUpdate(&shoot.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateShootSpec(shoot, path)...)
	errs = append(errs, validateImmutable(shoot.Spec.Region, old.Spec.Region, path.Child("region"))...)
	errs = append(errs, validateImmutable(shoot.Spec.Provider.Type, old.Spec.Provider.Type, path.Child("provider", "type"))...)
	return errs
}

// ValidateShootStatusUpdate checks a changed status.
func ValidateShootStatusUpdate(shoot, old *Shoot) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	if old.Status.UID != "" {
		errs = append(errs, validateImmutable(shoot.Status.UID, old.Status.UID, path.Child("uid"))...)
	}
	if old.Status.TechnicalID != "" {
		errs = append(errs, validateImmutable(shoot.Status.TechnicalID, old.Status.TechnicalID, path.Child("technicalID"))...)
	}
	if old.Status.ClusterIdentity != nil {
		errs = append(errs, validateImmutable(shoot.Status.ClusterIdentity, old.Status.ClusterIdentity, path.Child("clusterIdentity"))...)
	}
	return errs
}

func validateShootSpec(shoot *Shoot, path *field.Path) field.ErrorList {
	spec := &shoot.Spec
	errs := validateRequired(spec.Region, path.Child("region"))
	if spec.CloudProfile == nil || spec.CloudProfile.Name == "" {
		errs = append(errs, field.Required(path.Child("cloudProfile", "name"), "must name a cloud profile"))
	} else {
		errs = append(errs, validateEnum(spec.CloudProfile.Kind, path.Child("cloudProfile", "kind"), CloudProfileKind, NamespacedCloudProfileKind)...)
	}
	errs = append(errs, validateRequired(spec.Provider.Type, path.Child("provider", "type"))...)
	return errs
}

// WarningsShoot names what is accepted but should be changed. old is nil for a new Shoot.
func WarningsShoot(shoot, old *Shoot) []string { return nil }
