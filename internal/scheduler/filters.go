package scheduler

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

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
	check func(in Input, c Candidate, domains []string) string
	// fixes returns the changes of the Shoot that together let a seed pass which does not; none if no change does.
	// Nil: no change ever does.
	fixes func(in Input, c Candidate) []fix
}

// filters in the order in which their verdicts are reported. Source: the scheduler's filter chain in the documents. The
// last one is the strategy, as far as it needs no comparison of seeds.
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

func checkUsable(_ Input, c Candidate, _ []string) string {
	seed := c.Seed
	switch {
	case seed.DeletionTimestamp != nil:
		return "it is being deleted"
	case seed.Spec.Settings != nil && seed.Spec.Settings.Scheduling != nil && !seed.Spec.Settings.Scheduling.Visible:
		return "it is not visible to the scheduler"
	case seed.Status.LastOperation == nil:
		return "its gardenlet has not reconciled it yet"
	case !conditionTrue(seed, corev1beta1.SeedGardenletReady):
		return "its gardenlet is not ready"
	case seed.Spec.Backup != nil && !conditionTrue(seed, corev1beta1.SeedBackupBucketsReady):
		return "its backup buckets are not ready"
	}
	return ""
}

func conditionTrue(seed *corev1beta1.Seed, wanted corev1beta1.ConditionType) bool {
	return slices.ContainsFunc(seed.Status.Conditions, func(c corev1beta1.Condition) bool {
		return c.Type == wanted && c.Status == corev1beta1.ConditionTrue
	})
}

func checkProfileSelector(in Input, c Candidate, _ []string) string {
	if in.Profile == nil || in.Profile.SeedSelector == nil {
		return ""
	}
	return matches(&in.Profile.SeedSelector.LabelSelector, c.Seed.Labels, "the CloudProfile's")
}

func checkShootSelector(in Input, c Candidate, _ []string) string {
	if in.Shoot.Spec.SeedSelector == nil {
		return ""
	}
	return matches(&in.Shoot.Spec.SeedSelector.LabelSelector, c.Seed.Labels, "the Shoot's")
}

func matches(selector *metav1.LabelSelector, set map[string]string, whose string) string {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return fmt.Sprintf("%s seed selector is not valid: %v", whose, err)
	}
	if !parsed.Matches(labels.Set(set)) {
		return fmt.Sprintf("its labels do not match %s seed selector (%s)", whose, parsed)
	}
	return ""
}

func checkProviderType(in Input, c Candidate, _ []string) string {
	seedType, shootType := c.Seed.Spec.Provider.Type, in.Shoot.Spec.Provider.Type
	if in.Profile != nil && in.Profile.SeedSelector != nil && len(in.Profile.SeedSelector.ProviderTypes) > 0 {
		types := in.Profile.SeedSelector.ProviderTypes
		if slices.Contains(types, seedType) || slices.Contains(types, "*") {
			return ""
		}
		return fmt.Sprintf("its provider type %q is not among those of the CloudProfile's seed selector (%s)", seedType, strings.Join(types, ", "))
	}
	if seedType != shootType {
		return fmt.Sprintf("its provider type is %q, the Shoot's is %q", seedType, shootType)
	}
	return ""
}

func checkZones(in Input, c Candidate, _ []string) string {
	control := in.Shoot.Spec.ControlPlane
	if control == nil || control.HighAvailability == nil || control.HighAvailability.FailureTolerance.Type != corev1beta1.FailureToleranceTypeZone {
		return ""
	}
	if zones := len(c.Seed.Spec.Provider.Zones); zones < zonesForZoneTolerance {
		return fmt.Sprintf("it has %d zones, tolerance of a zone's failure needs %d", zones, zonesForZoneTolerance)
	}
	return ""
}

func checkAccessRestrictions(in Input, c Candidate, _ []string) string {
	if names := unsupported(in.Shoot, c.Seed); len(names) > 0 {
		return "it does not support the access restrictions " + quoted(names)
	}
	return ""
}

// unsupported returns the names of the Shoot's access restrictions that the seed lacks.
func unsupported(shoot *corev1beta1.Shoot, seed *corev1beta1.Seed) []string {
	var names []string
	for _, wanted := range shoot.Spec.AccessRestrictions {
		if !slices.ContainsFunc(seed.Spec.AccessRestrictions, func(r corev1beta1.AccessRestriction) bool { return r.Name == wanted.Name }) {
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

// defaultDomains are all domains that some seed offers to Shoots.
func defaultDomains(candidates []Candidate) []string {
	var domains []string
	for _, c := range candidates {
		for _, d := range c.Seed.Spec.DNS.Defaults {
			if !slices.Contains(domains, d.Domain) {
				domains = append(domains, d.Domain)
			}
		}
	}
	return domains
}

func checkDomain(in Input, c Candidate, domains []string) string {
	if in.Shoot.Spec.DNS == nil || in.Shoot.Spec.DNS.Domain == nil {
		return ""
	}
	for _, domain := range domains {
		if !strings.HasSuffix(*in.Shoot.Spec.DNS.Domain, "."+domain) {
			continue
		}
		known := slices.ContainsFunc(c.Seed.Spec.DNS.Defaults, func(d corev1beta1.SeedDNSProviderConfig) bool { return d.Domain == domain })
		if !known {
			return fmt.Sprintf("it can't serve the default domain %q", domain)
		}
	}
	return ""
}

func checkEmergencyStop(_ Input, c Candidate, _ []string) string {
	if _, stopped := c.Seed.Annotations[corev1beta1.AnnotationEmergencyStopShootReconciliations]; stopped {
		return "an operator has stopped all reconciliations on it"
	}
	return ""
}

func checkNetworks(in Input, c Candidate, _ []string) string {
	var reasons []string
	for _, own := range networksOf(in.Shoot, c.Seed) {
		for _, other := range networksOfSeed(c.Seed) {
			if overlap(own.cidr, other.cidr) {
				reasons = append(reasons, fmt.Sprintf("its network for %s (%s) overlaps with the Shoot's for %s (%s)", other.name, other.cidr, own.name, own.cidr))
			}
		}
	}
	return strings.Join(reasons, "; ")
}

// network is an address range and what it is for, as the field of spec.networking is called.
type network struct{ name, cidr string }

// networksOf are the ranges that a Shoot would have on a seed, which has defaults for what the Shoot leaves empty.
func networksOf(shoot *corev1beta1.Shoot, seed *corev1beta1.Seed) []network {
	var nodes, pods, services string
	if n := shoot.Spec.Networking; n != nil {
		nodes, pods, services = ptr.Deref(n.Nodes, ""), ptr.Deref(n.Pods, ""), ptr.Deref(n.Services, "")
	}
	if d := seed.Spec.Networks.ShootDefaults; d != nil {
		pods, services = cmp.Or(pods, ptr.Deref(d.Pods, "")), cmp.Or(services, ptr.Deref(d.Services, ""))
	}
	return []network{{"nodes", nodes}, {"pods", pods}, {"services", services}}
}

func networksOfSeed(seed *corev1beta1.Seed) []network {
	n := seed.Spec.Networks
	return []network{{"nodes", ptr.Deref(n.Nodes, "")}, {"pods", n.Pods}, {"services", n.Services}}
}

func overlap(a, b string) bool {
	first, err1 := netip.ParsePrefix(a)
	second, err2 := netip.ParsePrefix(b)
	return err1 == nil && err2 == nil && first.Overlaps(second)
}

func checkTaints(in Input, c Candidate, _ []string) string {
	untolerated := corev1beta1.UntoleratedTaints(c.Seed.Spec.Taints, in.Shoot.Spec.Tolerations)
	if len(untolerated) == 0 {
		return ""
	}
	var list []string
	for _, taint := range untolerated {
		list = append(list, taint.String())
	}
	return fmt.Sprintf("the Shoot does not tolerate its taints (%s)", strings.Join(list, ", "))
}

func checkCapacity(_ Input, c Candidate, _ []string) string {
	allocatable, limited := c.Seed.Status.Allocatable[corev1beta1.SeedResourceShoots]
	if limited && int64(c.Shoots) >= allocatable.Value() {
		return fmt.Sprintf("it is full: %d Shoots of %d", c.Shoots, allocatable.Value())
	}
	return ""
}

// checkRegion is what the strategy demands of each seed for itself.
func checkRegion(in Input, c Candidate, _ []string) string {
	seed, shoot := c.Seed.Spec.Provider, in.Shoot.Spec
	if in.Strategy == MinimalDistance && !isTesting(in.Shoot) {
		if _, known := in.distance(c.Seed); !known {
			return fmt.Sprintf("the region ConfigMap gives no distance from region %q to its region %q", shoot.Region, seed.Region)
		}
		return ""
	}
	switch {
	case seed.Type != shoot.Provider.Type:
		return fmt.Sprintf("its provider type is %q, and only the strategy %s lets a Shoot of type %q run there", seed.Type, MinimalDistance, shoot.Provider.Type)
	case isTesting(in.Shoot) || seed.Region == shoot.Region: // A test cluster may run anywhere, so that it does not take a place near users.
		return ""
	}
	return fmt.Sprintf("it is in region %q, the Shoot in %q", seed.Region, shoot.Region)
}
