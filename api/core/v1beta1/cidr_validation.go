package v1beta1

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateCIDR demands a canonical range, of one of the given families if any are given.
func validateCIDR(value string, path *field.Path, families ...IPFamily) field.ErrorList {
	prefix, err := netip.ParsePrefix(value)
	if err != nil {
		return field.ErrorList{field.Invalid(path, value, "must be an address range such as 10.0.0.0/16")}
	}
	if canonical := prefix.Masked(); canonical.String() != value {
		return field.ErrorList{field.Invalid(path, value, "must be written in its canonical form, "+canonical.String())}
	}
	family := familyOf(prefix)
	if len(families) > 0 && !slices.Contains(families, family) {
		return field.ErrorList{
			field.Invalid(path, value, "is an "+string(family)+" range, which is not among the ipFamilies"),
		}
	}
	return nil
}

// NamedCIDR is an address range and the field that holds it.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type NamedCIDR struct {
	Path  *field.Path
	Value *string
}

// ValidateDisjointCIDRs reports each range that shares an address with an earlier one. Ranges that are not given or
// cannot be parsed are left out.
func ValidateDisjointCIDRs(ranges ...NamedCIDR) field.ErrorList {
	var errs field.ErrorList
	for i, r := range ranges {
		prefix, ok := parseCIDR(r.Value)
		if !ok {
			continue
		}
		for _, earlier := range ranges[:i] {
			if other, ok := parseCIDR(earlier.Value); ok && prefix.Overlaps(other) {
				errs = append(errs, field.Invalid(r.Path, *r.Value, "must not overlap "+earlier.Path.String()+" ("+*earlier.Value+
					")"))
			}
		}
	}
	return errs
}

// ValidateDisjointShootNetworks reports address ranges of a Shoot that share addresses.
func ValidateDisjointShootNetworks(networking *Networking) field.ErrorList {
	if networking == nil {
		return nil
	}
	path := specPath.Child("networking")
	return ValidateDisjointCIDRs(
		NamedCIDR{Path: path.Child("nodes"), Value: networking.Nodes},
		NamedCIDR{Path: path.Child("pods"), Value: networking.Pods},
		NamedCIDR{Path: path.Child("services"), Value: networking.Services},
	)
}

func parseCIDR(value *string) (netip.Prefix, bool) {
	if value == nil {
		return netip.Prefix{}, false
	}
	prefix, err := netip.ParsePrefix(*value)
	return prefix, err == nil
}
