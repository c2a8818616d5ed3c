package v1beta1

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateControllerRegistration checks a ControllerRegistration.
func ValidateControllerRegistration(registration *ControllerRegistration) field.ErrorList {
	errs := validateMeta(&registration.ObjectMeta, false, nameIsLabel)
	resources, path := registration.Spec.Resources, specPath.Child("resources")
	errs = append(errs, validateUnique(resources, path,
		func(r *ControllerResource) string {
			if r.Kind == "" || r.Type == "" {
				return ""
			}
			return r.Kind + "/" + r.Type
		}, itself)...)
	primary := false
	for i := range resources {
		errs = append(errs, validateControllerResource(&resources[i], path.Index(i))...)
		primary = primary || resources[i].Primary == nil || *resources[i].Primary
	}
	deployment := registration.Spec.Deployment
	if deployment == nil {
		return errs
	}
	path = specPath.Child("deployment")
	errs = append(errs, validateOptionalEnum(deployment.Policy, path.Child("policy"), ControllerDeploymentPolicyOnDemand,
		ControllerDeploymentPolicyAlways, ControllerDeploymentPolicyAlwaysExceptNoShoots)...)
	if deployment.SeedSelector != nil {
		if primary {
			errs = append(errs, field.Forbidden(path.Child("seedSelector"), "not for extensions with primary resources"))
		}
		errs = append(errs, validateLabelSelector(deployment.SeedSelector, path.Child("seedSelector"))...)
	}
	if len(deployment.DeploymentRefs) > 1 {
		errs = append(errs, field.Forbidden(path.Child("deploymentRefs"), "at most one"))
	}
	for i, ref := range deployment.DeploymentRefs {
		errs = append(errs, validateRequired(ref.Name, path.Child("deploymentRefs").Index(i).Child("name"))...)
	}
	return errs
}

func validateControllerResource(resource *ControllerResource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if resource.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), "must be given"))
	} else {
		errs = append(errs, validateEnum(resource.Kind, path.Child("kind"), ExtensionKinds()...)...)
	}
	errs = append(errs, validateRequired(resource.Type, path.Child("type"))...)
	if resource.Kind != extensionKind {
		for _, f := range []struct {
			name  string
			given bool
		}{
			{"reconcileTimeout", resource.ReconcileTimeout != nil}, {"lifecycle", resource.Lifecycle != nil},
			{"autoEnable", len(resource.AutoEnable) > 0}, {"globallyEnabled", resource.GloballyEnabled != nil},
			{"clusterCompatibility", len(resource.ClusterCompatibility) > 0},
		} {
			if f.given {
				errs = append(errs, field.Forbidden(path.Child(f.name), "only for kind "+extensionKind))
			}
		}
		return errs
	}
	for _, list := range []struct {
		name     string
		clusters []ClusterType
	}{{"autoEnable", resource.AutoEnable}, {"clusterCompatibility", resource.ClusterCompatibility}} {
		path := path.Child(list.name)
		errs = append(errs, validateUniqueStrings(list.clusters, path)...)
		for i, cluster := range list.clusters {
			errs = append(errs, validateEnum(cluster, path.Index(i), ClusterTypeShoot, ClusterTypeSeed)...)
		}
	}
	for i, cluster := range resource.AutoEnable {
		if !slices.Contains(resource.ClusterCompatibility, cluster) {
			errs = append(errs, field.Forbidden(path.Child("autoEnable").Index(i), "must be one of clusterCompatibility"))
		}
	}
	if len(resource.AutoEnable) == 0 && resource.EnabledByDefault(ClusterTypeShoot) &&
		!slices.Contains(resource.ClusterCompatibility, ClusterTypeShoot) {
		errs = append(errs, field.Forbidden(path.Child("globallyEnabled"), "clusterCompatibility must include shoot"))
	}
	if lifecycle := resource.Lifecycle; lifecycle != nil {
		path := path.Child("lifecycle")
		errs = append(errs, validateOptionalEnum(lifecycle.Reconcile, path.Child("reconcile"), BeforeKubeAPIServer,
			AfterKubeAPIServer, AfterWorker)...)
		errs = append(errs, validateOptionalEnum(lifecycle.Delete, path.Child("delete"), BeforeKubeAPIServer,
			AfterKubeAPIServer)...)
		errs = append(errs, validateOptionalEnum(lifecycle.Migrate, path.Child("migrate"), BeforeKubeAPIServer,
			AfterKubeAPIServer)...)
	}
	return errs
}

// ValidateControllerRegistrationUpdate checks a changed ControllerRegistration.
func ValidateControllerRegistrationUpdate(registration, old *ControllerRegistration) field.ErrorList {
	errs := validateMetaUpdate(&registration.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateFrozen(&registration.ObjectMeta, &old.ObjectMeta, registration.Spec, old.Spec)...)
	for i, resource := range registration.Spec.Resources {
		for _, before := range old.Spec.Resources {
			if resource.Kind == before.Kind && resource.Type == before.Type {
				errs = append(errs, validateImmutable(resource.Primary, before.Primary,
					specPath.Child("resources").Index(i).Child("primary"))...)
			}
		}
	}
	return append(errs, ValidateControllerRegistration(registration)...)
}
