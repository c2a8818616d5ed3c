package scheduler_test

import (
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// judge schedules a Shoot by the documented rules. It uses only the API types of the product.
type judge struct {
	minimalDistance bool
	shoot           *corev1beta1.Shoot
	project         string
	profile         *corev1beta1.CloudProfile
	seeds           []corev1beta1.Seed  // By name.
	shoots          []corev1beta1.Shoot // All, including the one to schedule.
	regionConfigs   []corev1.ConfigMap  // By name.
}

// ruling is the judge's verdict on one seed.
type ruling struct {
	seed string
	// stage is the first one that drops the seed; empty if only its number of Shoots distinguishes it from the chosen one.
	stage string
	// rule of that stage which drops it; a stage has several.
	rule string
	// fails lists the stages that drop the seed by itself.
	fails []string
}

// sentence is the judge's decision about a Shoot.
type sentence struct {
	rulings []ruling
	chosen  string // Empty: no seed is suitable.
	tied    []string
}

const (
	inDistance  = "distance"
	unreadable  = "distances that cannot be read"
	farByConfig = "farther by the region ConfigMap"
	farByName   = "farther by the names of regions"
)

// stages that judge a seed alone, in the documented order. Each returns the rule that drops the seed, or "".
var stages = []struct {
	name string
	drop func(judge, *corev1beta1.Seed) string
}{
	{"usable", judge.unusable},
	{"cloud-profile-selector", judge.notSelectedByProfile},
	{"seed-selector", judge.notSelectedByShoot},
	{"provider-type", judge.otherProvider},
	{"zones", judge.withoutZones},
	{"access-restrictions", judge.withoutRestrictions},
	{"domain", judge.withoutDomain},
	{"emergency-stop", judge.stopped},
	{"networks", judge.withSameNetworks},
	{"taints", judge.tainted},
	{"capacity", judge.full},
	{"region", judge.elsewhere},
}

// fails lists the stages that drop a seed when applied alone.
func (j judge) fails(seed *corev1beta1.Seed) (names, rules []string) {
	for _, stage := range stages {
		if rule := stage.drop(j, seed); rule != "" {
			names, rules = append(names, stage.name), append(rules, rule)
		}
	}
	return names, rules
}

func (j judge) decide() sentence {
	s := sentence{tied: []string{}}
	var left []int // Indexes of seeds and rulings.
	for i := range j.seeds {
		r := ruling{seed: j.seeds[i].Name}
		names, rules := j.fails(&j.seeds[i])
		if r.fails = names; len(names) > 0 {
			r.stage, r.rule = names[0], rules[0]
		} else {
			left = append(left, i)
		}
		s.rulings = append(s.rulings, r)
	}
	keep := func(stage, rule string, good func(*corev1beta1.Seed) bool) {
		var kept []int
		for _, i := range left {
			if good(&j.seeds[i]) {
				kept = append(kept, i)
			} else {
				s.rulings[i].stage, s.rulings[i].rule = stage, rule
			}
		}
		left = kept
	}
	some := func(good func(*corev1beta1.Seed) bool) bool {
		return slices.ContainsFunc(left, func(i int) bool { return good(&j.seeds[i]) })
	}

	wanted := func(seed *corev1beta1.Seed) bool { return modeOf(seed) != "Prefer" || j.sharesZone(seed) }
	if len(j.workerZones()) > 0 && !j.survivesZones() && len(j.pinned()) == 0 && some(wanted) {
		keep("zone-selection", "Prefer without a zone of the workers", wanted)
	}
	if j.minimalDistance && !j.test() {
		distances, err := j.configured()
		known := func(seed *corev1beta1.Seed) bool { _, is := j.configuredDistance(distances, seed); return is }
		switch {
		case err != nil:
			keep(inDistance, unreadable, func(*corev1beta1.Seed) bool { return false })
		case some(known):
			keep(inDistance, "without a distance that others have", known)
			keep(inDistance, farByConfig, j.nearest(left, func(seed *corev1beta1.Seed) int {
				d, _ := j.configuredDistance(distances, seed)
				return d
			}))
		default:
			keep(inDistance, farByName, j.nearest(left, j.distanceByName))
		}
	}
	fewest := -1
	for _, i := range left {
		if n := j.shootsOn(j.seeds[i].Name, true); fewest < 0 || n < fewest {
			fewest = n
		}
	}
	for _, i := range left {
		if name := j.seeds[i].Name; j.shootsOn(name, true) == fewest {
			s.tied = append(s.tied, name)
		}
	}
	if len(s.tied) > 0 {
		s.chosen = s.tied[0]
	}
	return s
}

// 1. usable

func (j judge) unusable(seed *corev1beta1.Seed) string {
	is := func(wanted string) bool {
		return slices.ContainsFunc(seed.Status.Conditions, func(c corev1beta1.Condition) bool {
			return string(c.Type) == wanted && c.Status == "True"
		})
	}
	settings := seed.Spec.Settings
	switch {
	case seed.DeletionTimestamp != nil:
		return "in deletion"
	case settings != nil && settings.Scheduling != nil && !settings.Scheduling.Visible:
		return "not visible"
	case seed.Status.LastOperation == nil:
		return "never reconciled"
	case !is("GardenletReady"):
		return "gardenlet not ready"
	case seed.Spec.Backup != nil && !is("BackupBucketsReady"):
		return "buckets for backups not ready"
	}
	return ""
}

// 2. and 3. selectors

func (j judge) notSelectedByProfile(seed *corev1beta1.Seed) string {
	return notSelected(j.profile.Spec.SeedSelector, seed.Labels)
}

func (j judge) notSelectedByShoot(seed *corev1beta1.Seed) string {
	return notSelected(j.shoot.Spec.SeedSelector, seed.Labels)
}

func notSelected(selector *corev1beta1.SeedSelector, labels map[string]string) string {
	if selector == nil {
		return ""
	}
	for key, value := range selector.MatchLabels {
		if got, has := labels[key]; !has || got != value {
			return "matchLabels"
		}
	}
	for _, e := range selector.MatchExpressions {
		if !meets(e, labels) {
			return "matchExpressions"
		}
	}
	return ""
}

func meets(e metav1.LabelSelectorRequirement, labels map[string]string) bool {
	value, has := labels[e.Key]
	listed := has && slices.Contains(e.Values, value)
	switch e.Operator {
	case "In":
		return listed
	case "NotIn":
		return !listed
	case "Exists":
		return has
	}
	return !has // DoesNotExist
}

// 4. provider

func (j judge) otherProvider(seed *corev1beta1.Seed) string {
	own := seed.Spec.Provider.Type
	if s := j.profile.Spec.SeedSelector; s != nil && len(s.ProviderTypes) > 0 {
		if slices.Contains(s.ProviderTypes, own) || slices.Contains(s.ProviderTypes, "*") {
			return ""
		}
		return "not in the profile's list"
	}
	if own != j.shoot.Spec.Provider.Type {
		return "other type"
	}
	return ""
}

// 5. zones

func (j judge) survivesZones() bool {
	cp := j.shoot.Spec.ControlPlane
	return cp != nil && cp.HighAvailability != nil && cp.HighAvailability.FailureTolerance.Type == "zone"
}

func (j judge) pinned() []string {
	if j.shoot.Spec.ControlPlane == nil {
		return nil
	}
	return j.shoot.Spec.ControlPlane.Zones
}

func (j judge) workerZones() map[string]bool {
	zones := map[string]bool{}
	for _, pool := range j.shoot.Spec.Provider.Workers {
		for _, zone := range pool.Zones {
			zones[zone] = true
		}
	}
	return zones
}

func (j judge) sharesZone(seed *corev1beta1.Seed) bool {
	zones := j.workerZones()
	return slices.ContainsFunc(seed.Spec.Provider.Zones, func(zone string) bool { return zones[zone] })
}

func modeOf(seed *corev1beta1.Seed) string {
	if seed.Spec.Settings == nil || seed.Spec.Settings.ZoneSelection == nil {
		return ""
	}
	return string(seed.Spec.Settings.ZoneSelection.Mode)
}

func (j judge) withoutZones(seed *corev1beta1.Seed) string {
	if j.survivesZones() && len(seed.Spec.Provider.Zones) < 3 {
		return "fewer than three zones"
	}
	for _, zone := range j.pinned() {
		if !slices.Contains(seed.Spec.Provider.Zones, zone) {
			return "without a zone of the control plane"
		}
	}
	enforced := modeOf(seed) == "Enforce" && len(j.pinned()) == 0 && !j.survivesZones()
	if enforced && len(j.workerZones()) > 0 && !j.sharesZone(seed) {
		return "Enforce without a zone of the workers"
	}
	return ""
}

// 6. access restrictions

func (j judge) withoutRestrictions(seed *corev1beta1.Seed) string {
	for _, wanted := range j.shoot.Spec.AccessRestrictions {
		if !slices.ContainsFunc(seed.Spec.AccessRestrictions,
			func(r corev1beta1.AccessRestriction) bool { return r.Name == wanted.Name }) {
			return "restriction not supported"
		}
	}
	return ""
}

// 7. domain

func (j judge) withoutDomain(seed *corev1beta1.Seed) string {
	if !j.belowDefaultDomain() {
		return ""
	}
	for _, own := range seed.Spec.DNS.Defaults {
		if *j.shoot.Spec.DNS.Domain == j.shoot.Name+"."+j.project+"."+own.Domain {
			return ""
		}
	}
	return "default domain that it does not serve"
}

func (j judge) belowDefaultDomain() bool {
	if j.shoot.Spec.DNS == nil || j.shoot.Spec.DNS.Domain == nil {
		return false
	}
	for i := range j.seeds {
		for _, d := range j.seeds[i].Spec.DNS.Defaults {
			if strings.HasSuffix(*j.shoot.Spec.DNS.Domain, "."+d.Domain) {
				return true
			}
		}
	}
	return false
}

// 8. emergency stop

const stopAnnotation = "shoot.gardener.cloud/emergency-stop-reconciliations"

func (j judge) stopped(seed *corev1beta1.Seed) string {
	switch seed.Annotations[stopAnnotation] {
	case "1", "t", "T", "true", "TRUE", "True":
		return "stopped by an operator"
	}
	return ""
}

// 9. networks, taints, capacity

func (j judge) withSameNetworks(seed *corev1beta1.Seed) string {
	n := j.shoot.Spec.Networking
	if n == nil {
		return ""
	}
	families := n.IPFamilies
	if len(families) == 0 {
		families = []corev1beta1.IPFamily{"IPv4"}
	}
	type cidr struct{ text, origin string }
	var ranges []cidr
	add := func(own, byDefault *string) {
		switch {
		case own != nil:
			ranges = append(ranges, cidr{*own, "spec"})
		case byDefault != nil && slices.Contains(families, familyOf(*byDefault)):
			ranges = append(ranges, cidr{*byDefault, "defaults of the seed"})
		}
	}
	defaults := seed.Spec.Networks.ShootDefaults
	if defaults == nil {
		defaults = &corev1beta1.ShootNetworks{}
	}
	add(n.Nodes, nil)
	if len(j.shoot.Spec.Provider.Workers) > 0 {
		add(n.Pods, defaults.Pods)
	} else {
		add(n.Pods, nil)
	}
	add(n.Services, defaults.Services)
	if used := j.shoot.Status.Networking; used != nil {
		for _, text := range slices.Concat(used.Nodes, used.Pods, used.Services) {
			ranges = append(ranges, cidr{text, "status"})
		}
	}
	for _, r := range ranges {
		if rule := sameNetwork(r.text, &seed.Spec.Networks); rule != "" {
			if r.origin != "spec" {
				return "range from the " + r.origin
			}
			return rule
		}
	}
	return ""
}

func familyOf(cidr string) corev1beta1.IPFamily {
	if strings.Contains(cidr, ":") {
		return "IPv6"
	}
	return "IPv4"
}

func sameNetwork(cidr string, seed *corev1beta1.SeedNetworks) string {
	for _, reserved := range []string{
		"240.0.0.0/8", "241.0.0.0/8", "242.0.0.0/8", "243.0.0.0/8", "244.0.0.0/8", "fd8f:6d53:b97a:1::/96",
	} {
		if overlap(cidr, reserved) {
			return "range reserved for the tunnel"
		}
	}
	if familyOf(cidr) == "IPv4" {
		if overlap(cidr, seed.Services) {
			return "IPv4 range of its services"
		}
		return ""
	}
	if overlap(cidr, seed.Services) || overlap(cidr, seed.Pods) || seed.Nodes != nil && overlap(cidr, *seed.Nodes) {
		return "IPv6 range of its own"
	}
	return ""
}

func overlap(a, b string) bool {
	_, x, errX := net.ParseCIDR(a)
	_, y, errY := net.ParseCIDR(b)
	return errX == nil && errY == nil && (x.Contains(y.IP) || y.Contains(x.IP))
}

func (j judge) tainted(seed *corev1beta1.Seed) string {
	for _, taint := range seed.Spec.Taints {
		key, tolerated := false, false
		for _, t := range j.shoot.Spec.Tolerations {
			if t.Key == taint.Key {
				key = true
				tolerated = tolerated || taint.Value == nil || t.Value != nil && *t.Value == *taint.Value
			}
		}
		switch {
		case !key:
			return "key not tolerated"
		case !tolerated:
			return "value not tolerated"
		}
	}
	if len(j.shoot.Spec.Tolerations) < len(seed.Spec.Taints) {
		return "fewer tolerations than taints"
	}
	return ""
}

// shootsOn counts the Shoots of a seed, with or without those that are leaving it.
func (j judge) shootsOn(seed string, leaving bool) int {
	n := 0
	for _, s := range j.shoots {
		switch {
		case s.Spec.SeedName != nil && *s.Spec.SeedName == seed:
			n++
		case leaving && s.Status.SeedName != nil && *s.Status.SeedName == seed:
			n++
		}
	}
	return n
}

func (j judge) full(seed *corev1beta1.Seed) string {
	limit, limited := seed.Status.Allocatable["shoots"]
	if !limited || limit.Value() > int64(j.shootsOn(seed.Name, true)) {
		return ""
	}
	if limit.Value() > int64(j.shootsOn(seed.Name, false)) {
		return "full with a Shoot that is leaving"
	}
	return "full"
}

// 10. the hard part of the strategy

func (j judge) test() bool { return j.shoot.Spec.Purpose != nil && *j.shoot.Spec.Purpose == "testing" }

func (j judge) elsewhere(seed *corev1beta1.Seed) string {
	sameType := seed.Spec.Provider.Type == j.shoot.Spec.Provider.Type
	switch {
	case j.test() && !sameType:
		return "other type for a test"
	case j.test() || j.minimalDistance:
		return ""
	case !sameType:
		return "other type in SameRegion"
	case seed.Spec.Provider.Region != j.shoot.Spec.Region:
		return "other region"
	}
	return ""
}

// 12. distance

func (j judge) configured() (map[string]int, error) {
	for _, config := range j.regionConfigs {
		names := config.Annotations["scheduling.gardener.cloud/cloudprofiles"]
		if config.Namespace != "garden" || config.Labels["scheduling.gardener.cloud/purpose"] != "region-config" ||
			!slices.Contains(strings.Split(names, ","), j.profile.Name) {
			continue
		}
		if config.Data[j.shoot.Spec.Region] == "" {
			return nil, nil
		}
		distances := map[string]int{}
		err := yaml.Unmarshal([]byte(config.Data[j.shoot.Spec.Region]), &distances)
		return distances, err
	}
	return nil, nil
}

func (j judge) configuredDistance(distances map[string]int, seed *corev1beta1.Seed) (int, bool) {
	if distances == nil {
		return 0, false
	}
	d, has := distances[seed.Spec.Provider.Region]
	return d, has || seed.Spec.Provider.Region == j.shoot.Spec.Region
}

// nearest returns the seeds at the smallest distance.
func (j judge) nearest(among []int, distance func(*corev1beta1.Seed) int) func(*corev1beta1.Seed) bool {
	best := -1
	for _, i := range among {
		if d := distance(&j.seeds[i]); best < 0 || d < best {
			best = d
		}
	}
	return func(seed *corev1beta1.Seed) bool { return distance(seed) == best }
}

func (j judge) distanceByName(seed *corev1beta1.Seed) int {
	split := func(region string) (base []rune, orientation string) {
		for _, o := range []string{"north", "south", "east", "west", "central"} {
			if before, after, found := strings.Cut(region, o); found {
				return []rune(before + ":" + after), o
			}
		}
		return []rune(region), ""
	}
	a, orientationA := split(j.shoot.Spec.Region)
	b, orientationB := split(seed.Spec.Provider.Region)
	d := 2 * edits(a, b)
	switch {
	case orientationA == orientationB:
	case orientationA == "" || orientationB == "":
		d++
	default:
		d += 2
	}
	if seed.Spec.Provider.Type != j.shoot.Spec.Provider.Type {
		d += 2
	}
	return d
}

// edits counts insertions, deletions and substitutions.
func edits(a, b []rune) int {
	known := map[[2]int]int{}
	var rest func(i, k int) int
	rest = func(i, k int) int {
		if i == len(a) || k == len(b) {
			return len(a) - i + len(b) - k
		}
		if n, is := known[[2]int{i, k}]; is {
			return n
		}
		n := rest(i+1, k+1)
		if a[i] != b[k] {
			n = 1 + min(n, rest(i+1, k), rest(i, k+1))
		}
		known[[2]int{i, k}] = n
		return n
	}
	return rest(0, 0)
}
