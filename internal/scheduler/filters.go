package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// zonesForZoneTolerance is how many zones an etcd with three members needs to survive the loss of one.
	zonesForZoneTolerance = 3
	filterRegion          = "region"
)

// filter says why a seed can't take the Shoot, or "".
type filter struct {
	name  string
	check func(in Input, c Candidate) string
	// fixes returns the changes of the Shoot that together make a failing seed pass; none if no change does. Nil: no
	// change ever does.
	fixes func(in Input, c Candidate) []fix
}

// filters in the order in which their verdicts are reported. The last one is the strategy, as far as it needs no
// comparison of seeds.
var filters = []filter{
	{"usable", checkUsable, nil},
	{"cloud-profile-selector", checkProfileSelector, nil},
	{"seed-selector", checkShootSelector, fixShootSelector},
	{"provider-type", checkProviderType, nil},
	{"zones", checkZones, fixZones},
	{"access-restrictions", checkAccessRestrictions, fixAccessRestrictions},
	{"domain", checkDomain, fixDomain},
	{"emergency-stop", checkEmergencyStop, nil},
	{"networks", checkNetworks, fixNetworks},
	{"taints", checkTaints, fixTaints},
	{"capacity", checkCapacity, nil},
	{filterRegion, checkRegion, fixRegion},
}

func checkUsable(_ Input, c Candidate) string {
	seed := c.Seed
	needs := []corev1beta1.ConditionType{corev1beta1.SeedGardenletReady}
	if seed.Spec.Backup != nil {
		needs = append(needs, corev1beta1.SeedBackupBucketsReady)
	}
	switch {
	case seed.DeletionTimestamp != nil:
		return "it is being deleted"
	case seed.Spec.Settings != nil && seed.Spec.Settings.Scheduling != nil && !seed.Spec.Settings.Scheduling.Visible:
		return "it is hidden from the scheduler; an operator can set its spec.settings.scheduling.visible to true"
	case seed.Status.LastOperation == nil:
		return "its gardenlet has not reconciled it yet (no status.lastOperation)"
	}
	for _, condition := range needs {
		if status := conditionStatus(seed, condition); status != corev1beta1.ConditionTrue {
			return fmt.Sprintf("its condition %s is %s, must be True", condition, cmp.Or(status, "missing"))
		}
	}
	return ""
}

// conditionStatus is the status of a seed's condition, or "" if it has none of that type.
func conditionStatus(seed *corev1beta1.Seed, wanted corev1beta1.ConditionType) corev1beta1.ConditionStatus {
	for _, c := range seed.Status.Conditions {
		if c.Type == wanted {
			return c.Status
		}
	}
	return ""
}

func conditionTrue(seed *corev1beta1.Seed, wanted corev1beta1.ConditionType) bool {
	return conditionStatus(seed, wanted) == corev1beta1.ConditionTrue
}

func checkProfileSelector(in Input, c Candidate) string {
	if in.Profile == nil || in.Profile.SeedSelector == nil {
		return ""
	}
	return matches(&in.Profile.SeedSelector.LabelSelector, c.Seed.Labels, "the CloudProfile's")
}

func checkShootSelector(in Input, c Candidate) string {
	if in.Shoot.Spec.SeedSelector == nil {
		return ""
	}
	return matches(&in.Shoot.Spec.SeedSelector.LabelSelector, c.Seed.Labels, "the Shoot's")
}

func matches(selector *metav1.LabelSelector, set map[string]string, whose string) string {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return fmt.Sprintf("%s seedSelector is not valid: %v", whose, err)
	}
	if !parsed.Matches(labels.Set(set)) {
		return fmt.Sprintf("its labels do not match %s seedSelector (%s)", whose, parsed)
	}
	return ""
}

func checkProviderType(in Input, c Candidate) string {
	seedType, shootType := c.Seed.Spec.Provider.Type, in.Shoot.Spec.Provider.Type
	if in.Profile != nil && in.Profile.SeedSelector != nil && len(in.Profile.SeedSelector.ProviderTypes) > 0 {
		types := in.Profile.SeedSelector.ProviderTypes
		if slices.Contains(types, seedType) || slices.Contains(types, "*") {
			return ""
		}
		return fmt.Sprintf("its provider type %q is not in the CloudProfile's seedSelector.providerTypes (%s)", seedType,
			strings.Join(types, ", "))
	}
	if seedType != shootType {
		return fmt.Sprintf("its provider type is %q, the Shoot's is %q", seedType, shootType)
	}
	return ""
}

func checkZones(in Input, c Candidate) string {
	has, zones := c.Seed.Spec.Provider.Zones, zonesOfPools(in.Shoot)
	pinned, zoneTolerance := controlPlaneZones(in.Shoot), toleratesZoneFailure(in.Shoot)
	if zoneTolerance && len(has) < zonesForZoneTolerance {
		return fmt.Sprintf("it has %d zones, failure tolerance zone needs %d", len(has), zonesForZoneTolerance)
	}
	if missing := without(pinned, has); len(missing) > 0 {
		return fmt.Sprintf("it lacks zones %s of the Shoot's spec.controlPlane.zones (available: %s)", list(missing),
			list(has))
	}
	enforced := zoneSelection(c.Seed) == corev1beta1.ZoneSelectionEnforce && len(pinned) == 0 && !zoneTolerance
	if enforced && len(zones) > 0 && !shareZone(zones, has) {
		return fmt.Sprintf("it takes only Shoots with workers in its zones (%s), the Shoot's are in %s", list(has),
			list(zones))
	}
	return ""
}

// without returns those words that others lacks.
func without(words, others []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return slices.Contains(others, word) })
}

func checkAccessRestrictions(in Input, c Candidate) string {
	if names := unsupported(in.Shoot, c.Seed); len(names) > 0 {
		return "it does not support the access restrictions " + quoted(names)
	}
	return ""
}

// unsupported returns the names of the Shoot's access restrictions that the seed lacks.
func unsupported(shoot *corev1beta1.Shoot, seed *corev1beta1.Seed) []string {
	var names []string
	for _, wanted := range shoot.Spec.AccessRestrictions {
		if !slices.ContainsFunc(seed.Spec.AccessRestrictions,
			func(r corev1beta1.AccessRestriction) bool { return r.Name == wanted.Name }) {
			names = append(names, wanted.Name)
		}
	}
	return names
}

func quoted(words []string) string {
	var list []string
	for _, word := range words {
		list = append(list, strconv.Quote(word))
	}
	return strings.Join(list, ", ")
}

// DefaultDomains returns the default domains of all Seeds.
func DefaultDomains(seeds []corev1beta1.Seed) []string {
	var domains []string
	for i := range seeds {
		for _, d := range seeds[i].Spec.DNS.Defaults {
			if !slices.Contains(domains, d.Domain) {
				domains = append(domains, d.Domain)
			}
		}
	}
	return domains
}

// checkDomain wants a Shoot below a default domain on a seed that serves it, which is the one with the names of Shoot
// and project in front.
func checkDomain(in Input, c Candidate) string {
	if in.Shoot.Spec.DNS == nil || in.Shoot.Spec.DNS.Domain == nil {
		return ""
	}
	domain := *in.Shoot.Spec.DNS.Domain
	if !slices.ContainsFunc(in.DefaultDomains, func(d string) bool { return strings.HasSuffix(domain, "."+d) }) {
		return ""
	}
	var served []string
	for _, own := range c.Seed.Spec.DNS.Defaults {
		served = append(served, in.Shoot.Name+"."+in.Project+"."+own.Domain)
	}
	if slices.Contains(served, domain) {
		return ""
	}
	return fmt.Sprintf("it cannot serve spec.dns.domain %s, which is below a default domain (available: %s)", domain,
		list(served))
}

func checkEmergencyStop(_ Input, c Candidate) string {
	if c.Seed.EmergencyStop() {
		return "an operator has stopped all reconciliations on it (annotation " +
			corev1beta1.AnnotationEmergencyStopShootReconciliations + ")"
	}
	return ""
}

func checkNetworks(in Input, c Candidate) string {
	var reasons []string
	for _, conflict := range corev1beta1.NetworkConflicts(in.Shoot, in.Shoot.Status.Networking, &c.Seed.Spec.Networks) {
		reasons = append(reasons, conflict.String())
	}
	return strings.Join(reasons, "; ")
}

func checkTaints(in Input, c Candidate) string {
	untolerated := corev1beta1.UntoleratedTaints(c.Seed.Spec.Taints, in.Shoot.Spec.Tolerations)
	if len(untolerated) == 0 {
		return ""
	}
	var list []string
	for _, taint := range untolerated {
		list = append(list, taint.String())
	}
	return fmt.Sprintf("its taints are not tolerated by the Shoot's spec.tolerations: %s", strings.Join(list, ", "))
}

func checkCapacity(_ Input, c Candidate) string {
	allocatable, limited := c.Seed.Status.Allocatable[corev1beta1.SeedResourceShoots]
	if limited && int64(c.Shoots) >= allocatable.Value() {
		return fmt.Sprintf("it is full: %d of %d Shoots (status.allocatable.shoots)", c.Shoots, allocatable.Value())
	}
	return ""
}

// checkRegion is what the strategy demands of each seed for itself.
func checkRegion(in Input, c Candidate) string {
	seed, shoot := c.Seed.Spec.Provider, in.Shoot.Spec
	if in.Strategy == MinimalDistance && !isTesting(in.Shoot) {
		return ""
	}
	switch {
	case seed.Type != shoot.Provider.Type:
		return fmt.Sprintf("its provider type is %q, the Shoot's is %q", seed.Type, shoot.Provider.Type)
	case isTesting(in.Shoot) || seed.Region == shoot.Region:
		// A test cluster may run anywhere, so that it takes no place near users.
		return ""
	}
	return fmt.Sprintf("it is in region %q, the Shoot in %q", seed.Region, shoot.Region)
}
