package scheduler

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	seedGardenletReady     corev1beta1.ConditionType = "GardenletReady"
	seedBackupBucketsReady corev1beta1.ConditionType = "BackupBucketsReady"
	// resourceShoots is the key of a seed's capacity for Shoots.
	resourceShoots = "shoots"
	// annotationEmergencyStop keeps the gardenlet from reconciling Shoots, so that a new one would never come up.
	annotationEmergencyStop = "shoot.gardener.cloud/emergency-stop-reconciliations"
	// zonesForZoneTolerance is how many zones an etcd with three members needs to survive the loss of one.
	zonesForZoneTolerance = 3
)

// failure is a filter that a seed does not pass, and what a user may change about the Shoot, if anything.
type failure struct{ filter, reason, fix string }

// filter returns why the seed can't take the Shoot and how to mend that, or "".
type filter struct {
	name  string
	check func(in Input, c Candidate, domains []string) (reason, fix string)
}

// filters in the order in which their verdicts are reported. Source: the scheduler's filter chain in the documents.
var filters = []filter{
	{"usable", checkUsable},
	{"cloud-profile-selector", checkProfileSelector},
	{"seed-selector", checkShootSelector},
	{"provider-type", checkProviderType},
	{"zones", checkZones},
	{"access-restrictions", checkAccessRestrictions},
	{"domain", checkDomain},
	{"emergency-stop", checkEmergencyStop},
	{"networks", checkNetworks},
	{"taints", checkTaints},
	{"capacity", checkCapacity},
}

func failuresOf(in Input, c Candidate, domains []string) []failure {
	var failures []failure
	for _, f := range filters {
		if reason, fix := f.check(in, c, domains); reason != "" {
			failures = append(failures, failure{f.name, reason, fix})
		}
	}
	return failures
}

func checkUsable(_ Input, c Candidate, _ []string) (string, string) {
	seed := c.Seed
	switch {
	case seed.DeletionTimestamp != nil:
		return "it is being deleted", ""
	case seed.Spec.Settings != nil && seed.Spec.Settings.Scheduling != nil && !seed.Spec.Settings.Scheduling.Visible:
		return "it is not visible to the scheduler", ""
	case seed.Status.LastOperation == nil:
		return "its gardenlet has not reconciled it yet", ""
	case !conditionTrue(seed, seedGardenletReady):
		return "its gardenlet is not ready", ""
	case seed.Spec.Backup != nil && !conditionTrue(seed, seedBackupBucketsReady):
		return "its backup buckets are not ready", ""
	}
	return "", ""
}

func conditionTrue(seed *corev1beta1.Seed, wanted corev1beta1.ConditionType) bool {
	return slices.ContainsFunc(seed.Status.Conditions, func(c corev1beta1.Condition) bool {
		return c.Type == wanted && c.Status == corev1beta1.ConditionTrue
	})
}

func checkProfileSelector(in Input, c Candidate, _ []string) (string, string) {
	if in.Profile == nil || in.Profile.SeedSelector == nil {
		return "", ""
	}
	return matches(&in.Profile.SeedSelector.LabelSelector, c.Seed.Labels, "the CloudProfile's"), ""
}

func checkShootSelector(in Input, c Candidate, _ []string) (string, string) {
	if in.Shoot.Spec.SeedSelector == nil {
		return "", ""
	}
	return matches(&in.Shoot.Spec.SeedSelector.LabelSelector, c.Seed.Labels, "the Shoot's"), "widen spec.seedSelector"
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

func checkProviderType(in Input, c Candidate, _ []string) (string, string) {
	seedType, shootType := c.Seed.Spec.Provider.Type, in.Shoot.Spec.Provider.Type
	if in.Profile != nil && in.Profile.SeedSelector != nil && len(in.Profile.SeedSelector.ProviderTypes) > 0 {
		types := in.Profile.SeedSelector.ProviderTypes
		if slices.Contains(types, seedType) || slices.Contains(types, "*") {
			return "", ""
		}
		return fmt.Sprintf("its provider type %q is not among those of the CloudProfile's seed selector (%s)", seedType, strings.Join(types, ", ")), ""
	}
	if seedType != shootType {
		return fmt.Sprintf("its provider type is %q, the Shoot's is %q", seedType, shootType), ""
	}
	return "", ""
}

func checkZones(in Input, c Candidate, _ []string) (string, string) {
	control := in.Shoot.Spec.ControlPlane
	if control == nil || control.HighAvailability == nil || control.HighAvailability.FailureTolerance.Type != corev1beta1.FailureToleranceTypeZone {
		return "", ""
	}
	if zones := len(c.Seed.Spec.Provider.Zones); zones < zonesForZoneTolerance {
		return fmt.Sprintf("it has %d zones, tolerance of a zone's failure needs %d", zones, zonesForZoneTolerance),
			"set spec.controlPlane.highAvailability.failureTolerance.type to node"
	}
	return "", ""
}

func checkAccessRestrictions(in Input, c Candidate, _ []string) (string, string) {
	for _, wanted := range in.Shoot.Spec.AccessRestrictions {
		supported := slices.ContainsFunc(c.Seed.Spec.AccessRestrictions, func(r corev1beta1.AccessRestriction) bool { return r.Name == wanted.Name })
		if !supported {
			return fmt.Sprintf("it does not support the access restriction %q", wanted.Name), fmt.Sprintf("remove the access restriction %q", wanted.Name)
		}
	}
	return "", ""
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

func checkDomain(in Input, c Candidate, domains []string) (string, string) {
	if in.Shoot.Spec.DNS == nil || in.Shoot.Spec.DNS.Domain == nil {
		return "", ""
	}
	for _, domain := range domains {
		if !strings.HasSuffix(*in.Shoot.Spec.DNS.Domain, "."+domain) {
			continue
		}
		known := slices.ContainsFunc(c.Seed.Spec.DNS.Defaults, func(d corev1beta1.SeedDNSProviderConfig) bool { return d.Domain == domain })
		if !known {
			return fmt.Sprintf("it can't serve the default domain %q", domain), "choose another spec.dns.domain"
		}
	}
	return "", ""
}

func checkEmergencyStop(_ Input, c Candidate, _ []string) (string, string) {
	if _, stopped := c.Seed.Annotations[annotationEmergencyStop]; stopped {
		return "an operator has stopped all reconciliations on it", ""
	}
	return "", ""
}

func checkNetworks(in Input, c Candidate, _ []string) (string, string) {
	seed := c.Seed.Spec.Networks
	var nodes, pods, services string
	if n := in.Shoot.Spec.Networking; n != nil {
		nodes, pods, services = deref(n.Nodes), deref(n.Pods), deref(n.Services)
	}
	if d := seed.ShootDefaults; d != nil {
		pods, services = firstNonEmpty(pods, deref(d.Pods)), firstNonEmpty(services, deref(d.Services))
	}
	type network struct{ name, cidr string }
	for _, own := range []network{{"nodes", nodes}, {"pods", pods}, {"services", services}} {
		for _, other := range []network{{"nodes", deref(seed.Nodes)}, {"pods", seed.Pods}, {"services", seed.Services}} {
			if overlap(own.cidr, other.cidr) {
				return fmt.Sprintf("its network for %s (%s) overlaps with the Shoot's for %s (%s)", other.name, other.cidr, own.name, own.cidr),
					fmt.Sprintf("choose another spec.networking.%s than %s", own.name, own.cidr)
			}
		}
	}
	return "", ""
}

func overlap(a, b string) bool {
	first, err1 := netip.ParsePrefix(a)
	second, err2 := netip.ParsePrefix(b)
	return err1 == nil && err2 == nil && first.Overlaps(second)
}

func checkTaints(in Input, c Candidate, _ []string) (string, string) {
	var untolerated []string
	for _, taint := range c.Seed.Spec.Taints {
		if !tolerated(taint, in.Shoot.Spec.Tolerations) {
			untolerated = append(untolerated, taintText(taint))
		}
	}
	if len(untolerated) == 0 {
		return "", ""
	}
	list := strings.Join(untolerated, ", ")
	return fmt.Sprintf("the Shoot does not tolerate its taints (%s)", list), "add to spec.tolerations: " + list
}

// tolerated: a toleration of that key exists and, if the taint has a value, has that value.
func tolerated(taint corev1beta1.SeedTaint, tolerations []corev1beta1.Toleration) bool {
	return slices.ContainsFunc(tolerations, func(t corev1beta1.Toleration) bool {
		return t.Key == taint.Key && (taint.Value == nil || t.Value != nil && *t.Value == *taint.Value)
	})
}

func taintText(t corev1beta1.SeedTaint) string {
	if t.Value == nil {
		return t.Key
	}
	return t.Key + "=" + *t.Value
}

func checkCapacity(_ Input, c Candidate, _ []string) (string, string) {
	allocatable, limited := c.Seed.Status.Allocatable[resourceShoots]
	if limited && int64(c.Shoots) >= allocatable.Value() {
		return fmt.Sprintf("it is full: %d Shoots of %d", c.Shoots, allocatable.Value()), ""
	}
	return "", ""
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
