package bastion

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// allowed returns the prefixes from which connections are taken, sorted: those of the policies, without their
// exceptions. If nothing remains, that is an error: to the cloud an empty list means everybody.
func allowed(ingress []extensionsv1alpha1.BastionIngressPolicy) ([]string, field.ErrorList) {
	path := field.NewPath("spec", "ingress")
	var errs field.ErrorList
	parse := func(path *field.Path, text string) netip.Prefix {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, field.Invalid(path, text, "must be an address range such as 192.0.2.0/24"))
		}
		return prefix.Masked()
	}
	var all []netip.Prefix
	for i, policy := range ingress {
		block := path.Index(i).Child("ipBlock")
		left := []netip.Prefix{parse(block.Child("cidr"), policy.IPBlock.CIDR)}
		for j, text := range policy.IPBlock.Except {
			except := parse(block.Child("except").Index(j), text)
			var next []netip.Prefix
			for _, prefix := range left {
				next = append(next, subtract(prefix, except)...)
			}
			left = next
		}
		all = append(all, left...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	if len(all) == 0 {
		return nil, field.ErrorList{field.Required(path, "must allow at least one address")}
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return a.Compare(b) })
	var out []string
	for _, prefix := range slices.Compact(all) {
		out = append(out, prefix.String())
	}
	return out, nil
}

// subtract returns the prefixes that cover a prefix but for another one.
func subtract(prefix, except netip.Prefix) []netip.Prefix {
	switch {
	case !prefix.IsValid() || !prefix.Overlaps(except):
		return []netip.Prefix{prefix}
	case except.Bits() <= prefix.Bits():
		return nil
	}
	low, high := halves(prefix)
	return append(subtract(low, except), subtract(high, except)...)
}

// halves splits a prefix that has more than one address.
func halves(prefix netip.Prefix) (low, high netip.Prefix) {
	bits := prefix.Bits() + 1
	bytes := prefix.Addr().AsSlice()
	bytes[prefix.Bits()/8] |= 0x80 >> (prefix.Bits() % 8)
	other, _ := netip.AddrFromSlice(bytes) // As long as the address it was made from.
	return netip.PrefixFrom(prefix.Addr(), bits), netip.PrefixFrom(other, bits)
}
