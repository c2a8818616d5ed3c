package scheduler_test

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// edit is one change of a Shoot.
type edit func(*corev1beta1.Shoot)

var (
	wanted      = regexp.MustCompile(`^(\S+) (\S.*) instead of (\S.*)$`)
	controlZone = regexp.MustCompile(`^create the Shoot with spec\.controlPlane\.zones \[(.+)\]$`)
	poolZone    = regexp.MustCompile(`^add zone "(.+)" to spec\.provider\.workers\[0\]\.zones$`)
)

// readEdit parses the change in a verdict into an edit, as its reader would.
func readEdit(text string) (edit, error) {
	if label, is := between(text, "remove ", " from spec.seedSelector.matchLabels"); is {
		key, _, _ := strings.Cut(label, "=")
		return func(s *corev1beta1.Shoot) { delete(s.Spec.SeedSelector.MatchLabels, key) }, nil
	}
	if expression, is := between(text, "remove ", " from spec.seedSelector.matchExpressions"); is {
		return withoutExpression(expression), nil
	}
	if name, is := between(text, `remove the access restriction "`, `"`); is {
		return withoutRestriction(name), nil
	}
	if region, is := between(text, `create the Shoot in region "`, `"`); is {
		return func(s *corev1beta1.Shoot) { s.Spec.Region = region }, nil
	}
	if match := poolZone.FindStringSubmatch(text); match != nil {
		return withPoolZone(match[1]), nil
	}
	if match := controlZone.FindStringSubmatch(text); match != nil {
		return pinnedTo(strings.Split(match[1], ", ")...), nil
	}
	if word, is := strings.CutPrefix(text, "add to the end of spec.tolerations: "); is {
		return func(s *corev1beta1.Shoot) { s.Spec.Tolerations = append(s.Spec.Tolerations, toleration(word)) }, nil
	}
	if word, is := strings.CutPrefix(text, "add to the front of spec.tolerations: "); is {
		return func(s *corev1beta1.Shoot) {
			s.Spec.Tolerations = slices.Insert(s.Spec.Tolerations, 0, toleration(word))
		}, nil
	}
	if ranges, is := strings.CutPrefix(text, "create the Shoot with spec.networking."); is {
		if match := wanted.FindStringSubmatch(ranges); match != nil {
			return withRange(match[1], match[2]), nil
		}
	}
	switch text {
	case "create the Shoot with spec.controlPlane.highAvailability.failureTolerance.type node":
		return nodeTolerant, nil
	case "create the Shoot without spec.controlPlane.zones":
		return pinnedTo(), nil
	case "create the Shoot without spec.dns.domain; it then gets one that its seed serves":
		return withoutDomain, nil
	case "set spec.purpose to development":
		return forDevelopment, nil
	}
	return nil, fmt.Errorf("change %q is not understood", text)
}

// readEdits parses all changes that belong together.
func readEdits(text string) ([]edit, error) {
	var all []edit
	for part := range strings.SplitSeq(text, ", and ") {
		e, err := readEdit(part)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func between(text, before, after string) (string, bool) {
	rest, starts := strings.CutPrefix(text, before)
	inner, ends := strings.CutSuffix(rest, after)
	return inner, starts && ends
}

func nodeTolerant(s *corev1beta1.Shoot) {
	s.Spec.ControlPlane.HighAvailability.FailureTolerance.Type = "node"
}

func withoutDomain(s *corev1beta1.Shoot) { s.Spec.DNS.Domain = nil }

func forDevelopment(s *corev1beta1.Shoot) { s.Spec.Purpose = new(corev1beta1.ShootPurposeDevelopment) }

func pinnedTo(zones ...string) edit {
	return func(s *corev1beta1.Shoot) {
		if s.Spec.ControlPlane == nil {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{}
		}
		s.Spec.ControlPlane.Zones = zones
	}
}

func withPoolZone(zone string) edit {
	return func(s *corev1beta1.Shoot) {
		s.Spec.Provider.Workers[0].Zones = append(s.Spec.Provider.Workers[0].Zones, zone)
	}
}

func withoutRestriction(name string) edit {
	return func(s *corev1beta1.Shoot) {
		s.Spec.AccessRestrictions = slices.DeleteFunc(s.Spec.AccessRestrictions,
			func(r corev1beta1.AccessRestrictionWithOptions) bool { return r.Name == name })
	}
}

func withoutExpression(text string) edit {
	return func(s *corev1beta1.Shoot) {
		s.Spec.SeedSelector.MatchExpressions = slices.DeleteFunc(s.Spec.SeedSelector.MatchExpressions,
			func(e metav1.LabelSelectorRequirement) bool { return expressionText(e) == text })
	}
}

func expressionText(e metav1.LabelSelectorRequirement) string {
	values := " (" + strings.Join(e.Values, ",") + ")"
	return map[metav1.LabelSelectorOperator]string{
		"In": e.Key + " in" + values, "NotIn": e.Key + " notin" + values, "Exists": e.Key, "DoesNotExist": "!" + e.Key,
	}[e.Operator]
}

func withRange(field, cidr string) edit {
	return func(s *corev1beta1.Shoot) {
		switch field {
		case "nodes":
			s.Spec.Networking.Nodes = &cidr
		case "pods":
			s.Spec.Networking.Pods = &cidr
		case "services":
			s.Spec.Networking.Services = &cidr
		}
	}
}

// changed returns the judge of the Shoot after edits.
func (j judge) changed(edits ...edit) judge {
	j.shoot = j.shoot.DeepCopy()
	for _, e := range edits {
		e(j.shoot)
	}
	return j
}

// fits says whether the Shoot passes all stages that judge the seed alone, and whether its control plane has a valid
// number of zones.
func (j judge) fits(seed *corev1beta1.Seed) bool {
	names, _ := j.fails(seed)
	zones := 1
	if j.survivesZones() {
		zones = 3
	}
	return len(names) == 0 && (len(j.pinned()) == 0 || len(j.pinned()) == zones)
}

// possibleEdits are all edits that could help with the stages which drop a seed. Some stages have none.
func (j judge) possibleEdits(seed *corev1beta1.Seed) (list []edit, possible bool) {
	names, _ := j.fails(seed)
	spec := &j.shoot.Spec
	for _, stage := range names {
		switch stage {
		case "seed-selector":
			for key := range spec.SeedSelector.MatchLabels {
				list = append(list, func(s *corev1beta1.Shoot) { delete(s.Spec.SeedSelector.MatchLabels, key) })
			}
			for _, e := range spec.SeedSelector.MatchExpressions {
				list = append(list, withoutExpression(expressionText(e)))
			}
		case "zones":
			list = append(list, j.zoneEdits(seed)...)
		case "access-restrictions":
			for _, r := range spec.AccessRestrictions {
				list = append(list, withoutRestriction(r.Name))
			}
		case "domain":
			list = append(list, withoutDomain)
		case "networks":
			defaults := seed.Spec.Networks.ShootDefaults
			if defaults == nil {
				defaults = &corev1beta1.ShootNetworks{}
			}
			for i, field := range []string{"nodes", "pods", "services"} {
				own := []*string{spec.Networking.Nodes, spec.Networking.Pods, spec.Networking.Services}[i]
				if own == nil {
					own = []*string{nil, defaults.Pods, defaults.Services}[i]
				}
				if own != nil && familyOf(*own) == "IPv6" {
					list = append(list, withRange(field, "fd42:"+strconv.Itoa(i)+"::/112"))
				} else if own != nil {
					list = append(list, withRange(field, "192.168."+strconv.Itoa(i)+".0/24"))
				}
			}
		case "taints":
			for _, taint := range seed.Spec.Taints {
				list = append(list, func(s *corev1beta1.Shoot) {
					s.Spec.Tolerations = append(s.Spec.Tolerations, corev1beta1.Toleration(taint))
				})
			}
		case "region":
			region := seed.Spec.Provider.Region
			switch offered := j.offered(region); {
			case j.test() && j.minimalDistance:
				list = append(list, forDevelopment)
			case !j.test() && (offered != nil || len(j.profile.Spec.Regions) == 0):
				list = append(list, func(s *corev1beta1.Shoot) { s.Spec.Region = region })
			}
		default:
			return nil, false
		}
	}
	return list, true
}

// zoneEdits weaken the tolerance, or choose zones of the seed for control plane or workers if the profile lets the
// Shoot do so.
func (j judge) zoneEdits(seed *corev1beta1.Seed) (list []edit) {
	if j.survivesZones() {
		list = append(list, nodeTolerant)
	}
	zones, pinned := seed.Spec.Provider.Zones, len(j.pinned()) > 0
	if cp := j.profile.Spec.ControlPlane; pinned || cp != nil && cp.AllowZonePinning != nil && *cp.AllowZonePinning {
		for _, n := range []int{1, 3} {
			if len(zones) >= n {
				list = append(list, pinnedTo(zones[:n]...))
			}
		}
	}
	if pinned {
		list = append(list, pinnedTo())
	}
	region := j.shoot.Spec.Region
	if !j.minimalDistance && !j.test() {
		region = seed.Spec.Provider.Region
	}
	if offered := j.offered(region); offered != nil && len(j.shoot.Spec.Provider.Workers) > 0 {
		for _, zone := range offered.Zones {
			list = append(list, withPoolZone(zone.Name))
		}
	}
	return list
}

func (j judge) offered(region string) *corev1beta1.Region {
	for i := range j.profile.Spec.Regions {
		if j.profile.Spec.Regions[i].Name == region {
			return &j.profile.Spec.Regions[i]
		}
	}
	return nil
}

// smallest tries all sets of edits and returns the number that the seed needs, or -1 if no set suffices.
func (j judge) smallest(seed *corev1beta1.Seed) int {
	list, possible := j.possibleEdits(seed)
	if !possible {
		return -1
	}
	best := -1
	for set := range uint(1) << len(list) {
		if n := bits.OnesCount(set); (best < 0 || n < best) && j.changed(chosen(list, set)...).fits(seed) {
			best = n
		}
	}
	return best
}

// chosen returns the edits whose bits are set.
func chosen(list []edit, set uint) (some []edit) {
	for i, e := range list {
		if set&(1<<i) != 0 {
			some = append(some, e)
		}
	}
	return some
}
