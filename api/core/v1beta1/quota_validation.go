package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// quotaScopes are the kinds that may share a quota, as apiVersion/kind.
var quotaScopes = []string{
	"core.gardener.cloud/v1beta1/Project", "v1/Secret", "security.gardener.cloud/v1alpha1/WorkloadIdentity",
}

// ValidateQuota checks a Quota.
func ValidateQuota(quota *Quota) field.ErrorList {
	errs := validateMeta(&quota.ObjectMeta, true, nameIsSubdomain)
	scope, path := quota.Spec.Scope, specPath.Child("scope")
	errs = append(errs, validateEnum(scope.APIVersion+"/"+scope.Kind, path, quotaScopes...)...)
	if days := quota.Spec.ClusterLifetimeDays; days != nil && *days < 1 {
		errs = append(errs, field.Invalid(specPath.Child("clusterLifetimeDays"), *days, "must be at least 1"))
	}
	for _, name := range sortedKeys(quota.Spec.Metrics) {
		amount := quota.Spec.Metrics[name]
		path := specPath.Child("metrics").Key(string(name))
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, QuotaMetricGPU, QuotaMetricStorageStandard,
			QuotaMetricStoragePremium, QuotaMetricLoadbalancer:
		default:
			errs = append(errs, field.Invalid(path, name, "not a metric of quotas"))
		}
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path, amount.String(), "must not be negative"))
		}
	}
	return errs
}

// ValidateQuotaUpdate checks a changed Quota.
func ValidateQuotaUpdate(quota, old *Quota) field.ErrorList {
	errs := validateMetaUpdate(&quota.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateImmutable(quota.Spec.Scope, old.Spec.Scope, specPath.Child("scope"))...)
	return append(errs, ValidateQuota(quota)...)
}
