package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateShootStatusUpdate checks a changed status. The new object must carry the stored spec.
func ValidateShootStatusUpdate(shoot, old *Shoot) field.ErrorList {
	errs := validateMetaUpdate(&shoot.ObjectMeta, &old.ObjectMeta)
	now, before := &shoot.Status, &old.Status
	if before.UID != "" {
		errs = append(errs, validateImmutable(now.UID, before.UID, statusPath.Child("uid"))...)
	}
	if before.TechnicalID != "" {
		errs = append(errs, validateImmutable(now.TechnicalID, before.TechnicalID, statusPath.Child("technicalID"))...)
	}
	if deref(before.ClusterIdentity) != "" {
		errs = append(errs, validateImmutable(now.ClusterIdentity, before.ClusterIdentity,
			statusPath.Child("clusterIdentity"))...)
	}
	path := statusPath.Child("advertisedAddresses")
	errs = append(errs, validateUnique(now.AdvertisedAddresses, path,
		func(a *ShootAdvertisedAddress) string { return a.Name }, child("name"))...)
	for i, address := range now.AdvertisedAddresses {
		errs = append(errs, validateRequired(address.Name, path.Index(i).Child("name"))...)
		if problem := httpsURLProblem(address.URL); problem != "" {
			errs = append(errs, field.Invalid(path.Index(i).Child("url"), address.URL, problem))
		}
	}
	if networking := now.Networking; networking != nil {
		path := statusPath.Child("networking")
		for _, list := range []struct {
			name  string
			cidrs []string
		}{{"pods", networking.Pods}, {"nodes", networking.Nodes}, {"services", networking.Services},
			{"egressCIDRs", networking.EgressCIDRs}} {
			for i, cidr := range list.cidrs {
				errs = append(errs, validateCIDR(cidr, path.Child(list.name).Index(i))...)
			}
		}
	}
	return errs
}
