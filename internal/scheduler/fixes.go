package scheduler

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// fix is one change of a Shoot that removes a reason why a seed can't take it.
type fix struct {
	text  string
	apply func(*corev1beta1.Shoot)
}

// SmallestChange returns the fewest changes of the Shoot that make it schedulable, or "" if it is schedulable, or if no
// changes of the Shoot make it so. Changes are returned only after a decision with them has chosen a Seed.
func SmallestChange(in Input) string {
	type option struct {
		seed  string
		fixes []fix
	}
	var options []option
	for _, c := range in.Candidates {
		if fixes, possible := fixesFor(in, c); possible {
			options = append(options, option{c.Seed.Name, fixes})
		}
	}
	slices.SortStableFunc(options, func(a, b option) int { return len(a.fixes) - len(b.fixes) })
	for _, o := range options {
		if len(o.fixes) == 0 {
			return ""
		}
		if Decide(in.with(o.fixes)).Seed != "" {
			return fmt.Sprintf("for seed %s: %s", o.seed, describe(o.fixes))
		}
	}
	return ""
}

// Explain adds to a decision on the input, for each Seed, all reasons against it and the change that would make it
// suitable.
func Explain(in Input, d *Decision) {
	for i, c := range in.Candidates {
		v := &d.Verdicts[i]
		v.Reasons = nil
		for _, f := range filters {
			if reason := f.check(in, c); reason != "" {
				v.Reasons = append(v.Reasons, Reason{Filter: f.name, Reason: reason})
			}
		}
		if len(v.Reasons) == 0 {
			if !v.Passed { // Other Seeds are better.
				v.Reasons = []Reason{{Filter: v.Filter, Reason: v.Reason}}
			}
			continue
		}
		if fixes, possible := fixesFor(in, c); possible {
			v.Change = describe(fixes)
		}
	}
}

func describe(fixes []fix) string {
	var texts []string
	for _, f := range fixes {
		texts = append(texts, f.text)
	}
	return strings.Join(texts, ", and ")
}

// fixesFor returns what to change so that a seed passes all filters, and whether changes of the Shoot can do that.
func fixesFor(in Input, c Candidate) (all []fix, possible bool) {
	for _, f := range filters {
		if f.check(in, c) == "" {
			continue
		}
		if f.fixes == nil {
			return nil, false
		}
		fixes := f.fixes(in, c)
		if len(fixes) == 0 {
			return nil, false
		}
		all = append(all, fixes...)
	}
	changed := in.with(all) // One change may need another: without pinned zones, those of the pools count.
	for _, f := range filters {
		if f.check(changed, c) != "" {
			return nil, false
		}
	}
	return all, true
}

// with returns the input for the Shoot as it would be.
func (in Input) with(fixes []fix) Input {
	in.Shoot = in.Shoot.DeepCopy()
	for _, f := range fixes {
		f.apply(in.Shoot)
	}
	return in
}

// fixShootSelector takes out of the Shoot's selector what the seed's labels do not match.
func fixShootSelector(in Input, c Candidate) []fix {
	var fixes []fix
	selector := in.Shoot.Spec.SeedSelector
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		value := selector.MatchLabels[key]
		if got, has := c.Seed.Labels[key]; has && got == value {
			continue
		}
		fixes = append(fixes, fix{fmt.Sprintf("remove %s=%s from spec.seedSelector.matchLabels", key, value),
			func(s *corev1beta1.Shoot) {
				delete(s.Spec.SeedSelector.MatchLabels, key)
			}})
	}
	for _, requirement := range selector.MatchExpressions {
		only := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}}
		if parsed, err := metav1.LabelSelectorAsSelector(only); err == nil && parsed.Matches(labels.Set(c.Seed.Labels)) {
			continue
		}
		text := fmt.Sprintf("remove %s from spec.seedSelector.matchExpressions", metav1.FormatLabelSelector(only))
		fixes = append(fixes, fix{text, func(s *corev1beta1.Shoot) {
			s.Spec.SeedSelector.MatchExpressions = slices.DeleteFunc(s.Spec.SeedSelector.MatchExpressions,
				func(r metav1.LabelSelectorRequirement) bool {
					return r.Key == requirement.Key && r.Operator == requirement.Operator && slices.Equal(r.Values, requirement.Values)
				})
		}})
	}
	return fixes
}

// fixZones weakens the failure tolerance, pins the control plane to zones of the seed, or adds one of them to a pool,
// as far as the seed's zones need it and the CloudProfile allows it.
func fixZones(in Input, c Candidate) []fix {
	var fixes []fix
	has := c.Seed.Spec.Provider.Zones
	need := 1 // Zones of the control plane.
	if toleratesZoneFailure(in.Shoot) {
		need = zonesForZoneTolerance
		if len(has) < need {
			need = 1
			fixes = append(fixes, fix{"create the Shoot with spec.controlPlane.highAvailability.failureTolerance.type node",
				func(s *corev1beta1.Shoot) {
					s.Spec.ControlPlane.HighAvailability.FailureTolerance.Type = corev1beta1.FailureToleranceTypeNode
				}})
		}
	}
	if len(without(controlPlaneZones(in.Shoot), has)) > 0 {
		fixes = append(fixes, pin(has[:min(need, len(has))]))
	}
	if changed := in.with(fixes); checkZones(changed, c) != "" {
		switch offered := in.zonesFor(c.Seed); {
		case len(offered) > 0:
			text := fmt.Sprintf("add zone %q to spec.provider.workers[0].zones", offered[0])
			fixes = append(fixes, fix{text, func(s *corev1beta1.Shoot) {
				s.Spec.Provider.Workers[0].Zones = append(s.Spec.Provider.Workers[0].Zones, offered[0])
			}})
		case in.allowsPinning() && len(has) > 0: // The zones of the workers do not matter then.
			fixes = append(fixes, pin(has[:1]))
		default:
			return nil
		}
	}
	return fixes
}

// pin chooses the zones of the control plane, none to leave the choice to the seed.
func pin(zones []string) fix {
	text := fmt.Sprintf("create the Shoot with spec.controlPlane.zones [%s]", strings.Join(zones, ", "))
	if len(zones) == 0 {
		text = "create the Shoot without spec.controlPlane.zones"
	}
	return fix{text, func(s *corev1beta1.Shoot) {
		if s.Spec.ControlPlane == nil {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{}
		}
		s.Spec.ControlPlane.Zones = slices.Clone(zones)
	}}
}

// allowsPinning says whether Shoots of the CloudProfile may choose the zones of their control planes.
func (in Input) allowsPinning() bool {
	return in.Profile != nil && in.Profile.ControlPlane != nil &&
		ptr.Deref(in.Profile.ControlPlane.AllowZonePinning, false)
}

// zonesFor are the zones of a seed in which the CloudProfile offers workers, in the region in which that seed would
// need the Shoot.
func (in Input) zonesFor(seed *corev1beta1.Seed) []string {
	if in.Profile == nil {
		return nil
	}
	region := in.Shoot.Spec.Region
	if in.Strategy != MinimalDistance && !isTesting(in.Shoot) {
		region = seed.Spec.Provider.Region
	}
	var zones []string
	for _, r := range in.Profile.Regions {
		for _, zone := range r.Zones {
			if r.Name == region && slices.Contains(seed.Spec.Provider.Zones, zone.Name) {
				zones = append(zones, zone.Name)
			}
		}
	}
	return zones
}

func fixAccessRestrictions(in Input, c Candidate) []fix {
	var fixes []fix
	for _, name := range unsupported(in.Shoot, c.Seed) {
		fixes = append(fixes, fix{fmt.Sprintf("remove the access restriction %q", name), func(s *corev1beta1.Shoot) {
			s.Spec.AccessRestrictions = slices.DeleteFunc(s.Spec.AccessRestrictions,
				func(r corev1beta1.AccessRestrictionWithOptions) bool { return r.Name == name })
		}})
	}
	return fixes
}

func fixDomain(Input, Candidate) []fix {
	return []fix{{"create the Shoot without spec.dns.domain; it then gets one that its seed serves",
		func(s *corev1beta1.Shoot) {
			s.Spec.DNS.Domain = nil
		}}}
}

// fixNetworks finds ranges of the same size that are free. There is none for ranges in use.
func fixNetworks(in Input, c Candidate) []fix {
	networks := &c.Seed.Spec.Networks
	conflicts := corev1beta1.NetworkConflicts(in.Shoot, in.Shoot.Status.Networking, networks)
	own := map[string]string{} // By field of spec.networking.
	networking := corev1beta1.NetworksOnSeed(in.Shoot, networks)
	for field, value := range map[string]*string{
		"nodes": networking.Nodes, "pods": networking.Pods, "services": networking.Services,
	} {
		if value != nil {
			own[field] = *value
		}
	}
	var fixes []fix
	for _, field := range []string{"nodes", "pods", "services"} {
		ofField := func(conflict corev1beta1.NetworkConflict) bool { return conflict.Field == field }
		i := slices.IndexFunc(conflicts, ofField)
		if i < 0 {
			continue
		}
		if slices.ContainsFunc(conflicts, func(c corev1beta1.NetworkConflict) bool { return ofField(c) && c.InUse }) {
			return nil
		}
		taken := []string{networks.Pods, networks.Services} // The new range must not overlap with any of the seed.
		if networks.Nodes != nil {
			taken = append(taken, *networks.Nodes)
		}
		for other, cidr := range own {
			if other != field {
				taken = append(taken, cidr)
			}
		}
		was := conflicts[i].Range
		free := freeRange(was, taken)
		if free == "" {
			return nil
		}
		own[field] = free
		text := fmt.Sprintf("create the Shoot with spec.networking.%s %s instead of %s", field, free, was)
		fixes = append(fixes, fix{text, func(s *corev1beta1.Shoot) {
			switch field {
			case "nodes":
				s.Spec.Networking.Nodes = &free
			case "pods":
				s.Spec.Networking.Pods = &free
			case "services":
				s.Spec.Networking.Services = &free
			}
		}})
	}
	return fixes
}

// privatePools are where ranges for clusters come from. Source: RFC 1918, RFC 6598, RFC 4193.
var privatePools = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
	// fd00::/9 does not contain the tunnel's range, fd8f:6d53:b97a:1::/96.
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("fd00::/9"),
}

// freeRange returns the first private range as large as another that overlaps with none of those taken, or "".
func freeRange(like string, taken []string) string {
	size, err := netip.ParsePrefix(like)
	if err != nil {
		return ""
	}
	var occupied []netip.Prefix
	for _, t := range taken {
		if p, err := netip.ParsePrefix(t); err == nil {
			occupied = append(occupied, p.Masked())
		}
	}
	for _, pool := range privatePools {
		if pool.Addr().Is4() != size.Addr().Is4() || size.Bits() < pool.Bits() {
			continue
		}
		for start := pool.Addr(); pool.Contains(start); { // Each turn leaves an occupied range behind, or ends.
			candidate := netip.PrefixFrom(start, size.Bits()).Masked()
			i := slices.IndexFunc(occupied, candidate.Overlaps)
			if i < 0 {
				return candidate.String()
			}
			larger := candidate
			if occupied[i].Bits() < larger.Bits() {
				larger = occupied[i]
			}
			start = after(larger)
		}
	}
	return ""
}

// after returns the first address behind a range; the zero address, which no range has, if there is none.
func after(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last.Next()
}

// fixTaints adds tolerations: those with a value in front, because validation refuses them behind one of the bare key.
func fixTaints(in Input, c Candidate) []fix {
	var fixes []fix
	for _, taint := range corev1beta1.UntoleratedTaints(c.Seed.Spec.Taints, in.Shoot.Spec.Tolerations) {
		toleration, text := corev1beta1.Toleration{Key: taint.Key}, "add to the end of spec.tolerations: "
		if taint.Value != nil && *taint.Value != "" {
			toleration.Value, text = taint.Value, "add to the front of spec.tolerations: "
		}
		fixes = append(fixes, fix{text + taint.String(), func(s *corev1beta1.Shoot) {
			if toleration.Value == nil {
				s.Spec.Tolerations = append(s.Spec.Tolerations, toleration)
				return
			}
			s.Spec.Tolerations = append([]corev1beta1.Toleration{toleration}, s.Spec.Tolerations...)
		}})
	}
	return fixes
}

// fixRegion moves the Shoot to the seed, if provider and profile let it. Where distance decides, only test clusters
// need a seed of their provider type.
func fixRegion(in Input, c Candidate) []fix {
	if in.Strategy == MinimalDistance {
		return []fix{{"set spec.purpose to development", func(s *corev1beta1.Shoot) {
			s.Spec.Purpose = new(corev1beta1.ShootPurposeDevelopment)
		}}}
	}
	region := c.Seed.Spec.Provider.Region
	if c.Seed.Spec.Provider.Type != in.Shoot.Spec.Provider.Type { // The only demand of test clusters.
		return nil
	}
	if in.Profile != nil && len(in.Profile.Regions) > 0 &&
		!slices.ContainsFunc(in.Profile.Regions, func(r corev1beta1.Region) bool { return r.Name == region }) {
		return nil
	}
	return []fix{{fmt.Sprintf("create the Shoot in region %q", region),
		func(s *corev1beta1.Shoot) { s.Spec.Region = region }}}
}
