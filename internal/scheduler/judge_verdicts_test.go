package scheduler_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/scheduler"
)

var (
	judgedCases = flag.Int("judged-cases", 500, "Shoots that the judge places")
	judgedSeed  = flag.Uint64("judged-seed", 1, "seed of the first of them")
)

// minCases is the minimum number of verdicts that each rule decides, so that mistakes in it are found.
const minCases = 8

// rulesOfJudge are all rules by which a seed can be dropped, by stage, and the outcomes of the others.
var rulesOfJudge = map[string][]string{
	"usable": {
		"in deletion", "not visible", "never reconciled", "gardenlet not ready", "buckets for backups not ready",
	},
	"cloud-profile-selector": {"matchLabels", "matchExpressions"},
	"seed-selector":          {"matchLabels", "matchExpressions"},
	"provider-type":          {"other type", "not in the profile's list"},
	"zones": {
		"fewer than three zones", "without a zone of the control plane", "Enforce without a zone of the workers",
	},
	"access-restrictions": {"restriction not supported"},
	"domain":              {"default domain that it does not serve"},
	"emergency-stop":      {"stopped by an operator"},
	"networks": {"IPv4 range of its services", "IPv6 range of its own", "range reserved for the tunnel",
		"range from the defaults of the seed",
		"range from the status"},
	"taints":         {"key not tolerated", "value not tolerated", "fewer tolerations than taints"},
	"capacity":       {"full", "full with a Shoot that is leaving"},
	"region":         {"other region", "other type in SameRegion", "other type for a test"},
	"zone-selection": {"Prefer without a zone of the workers"},
	inDistance:       {farByConfig, farByName, "without a distance that others have", unreadable},
	"left":           {"chosen", "tied with the chosen one", "more Shoots than the chosen one"},
	"kept": {"a stop that is not true", "another type, which the profile lists", "another type, as the profile takes any",
		"three zones for tolerance zone",
		"the zones of the control plane, without those of workers", "Enforce, with workers in no zone",
		"Prefer, as all do and have no zone",
		"restrictions supported", "its own default domain", "a domain of nobody", "IPv4 over its nodes or pods",
		"no networking",
		"each taint tolerated", "a place is left", "buckets for backups ready", "a test in another region",
		"settings left out", "the own region is at 0"},
	"changes": {"possible", "impossible", "of several parts"},
}

// kept lists notable rules that a seed passes which passes all stages except the distance.
func (j judge) kept(seed *corev1beta1.Seed) (rules []string) {
	note := func(is bool, rule string) {
		if is {
			rules = append(rules, rule)
		}
	}
	spec, shoot := &seed.Spec, &j.shoot.Spec
	_, annotated := seed.Annotations[stopAnnotation]
	otherType := spec.Provider.Type != shoot.Provider.Type
	listed := j.profile.Spec.SeedSelector != nil &&
		slices.Contains(j.profile.Spec.SeedSelector.ProviderTypes, spec.Provider.Type)
	zoned := len(j.workerZones()) > 0
	enforced := modeOf(seed) == "Enforce" && !j.survivesZones()
	_, limited := seed.Status.Allocatable["shoots"]
	withDomain := shoot.DNS != nil && shoot.DNS.Domain != nil
	note(annotated, "a stop that is not true")
	note(otherType && listed, "another type, which the profile lists")
	note(otherType && !listed, "another type, as the profile takes any")
	note(j.survivesZones(), "three zones for tolerance zone")
	note(enforced && len(j.pinned()) > 0 && zoned && !j.sharesZone(seed),
		"the zones of the control plane, without those of workers")
	note(enforced && len(j.pinned()) == 0 && !zoned, "Enforce, with workers in no zone")
	note(modeOf(seed) == "Prefer" && len(j.pinned()) == 0 && !j.survivesZones() && zoned && !j.sharesZone(seed),
		"Prefer, as all do and have no zone")
	note(len(shoot.AccessRestrictions) > 0, "restrictions supported")
	note(withDomain && j.belowDefaultDomain(), "its own default domain")
	note(withDomain && !j.belowDefaultDomain(), "a domain of nobody")
	if n := shoot.Networking; n != nil {
		over := func(own *string) bool {
			return own != nil && (overlap(*own, spec.Networks.Pods) || spec.Networks.Nodes != nil &&
				overlap(*own, *spec.Networks.Nodes))
		}
		note(over(n.Nodes) || over(n.Pods), "IPv4 over its nodes or pods")
	}
	note(shoot.Networking == nil, "no networking")
	note(len(spec.Taints) > 0, "each taint tolerated")
	note(limited, "a place is left")
	note(spec.Backup != nil, "buckets for backups ready")
	note(j.test() && spec.Provider.Region != shoot.Region, "a test in another region")
	note(spec.Settings == nil, "settings left out")
	distances, err := j.configured()
	_, given := distances[shoot.Region]
	note(err == nil && distances != nil && !given && j.minimalDistance && !j.test() &&
		spec.Provider.Region == shoot.Region, "the own region is at 0")
	return rules
}

// TestDecisionsAgreeWithTheJudge schedules Shoots in random gardens: the chosen seed, the tied ones, the verdict on
// each seed with all failed stages, and the smallest changes are the same as the judge's.
func TestDecisionsAgreeWithTheJudge(t *testing.T) {
	decided := map[string]map[string]int{}
	count := func(stage, rule string) {
		if decided[stage] == nil {
			decided[stage] = map[string]int{}
		}
		decided[stage][rule]++
	}
	for i := range *judgedCases {
		f, strategy := newChance(*judgedSeed, i).garden()
		j := judgeOf(f, strategy)
		want := j.decide()
		results := scheduler.Schedule(f, "default-scheduler", strategy, func(*corev1beta1.Shoot) bool { return true })
		if len(results) != 1 {
			t.Fatalf("case %d: %d decisions", i, len(results))
		}
		t.Run(fmt.Sprintf("case %d", i), func(t *testing.T) {
			compareVerdicts(t, want, results[0])
			compareChanges(t, j, want, results[0], func(rule string) { count("changes", rule) })
		})
		for k, r := range want.rulings {
			switch {
			case r.stage != "":
				count(r.stage, r.rule)
			case r.seed == want.chosen:
				count("left", "chosen")
			case slices.Contains(want.tied, r.seed):
				count("left", "tied with the chosen one")
			default:
				count("left", "more Shoots than the chosen one")
			}
			if r.stage == "" || r.stage == inDistance {
				for _, rule := range j.kept(&j.seeds[k]) {
					count("kept", rule)
				}
			}
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(rulesOfJudge)) {
		for _, rule := range rulesOfJudge[stage] {
			t.Logf("%-24s %-60s %4d", stage, rule, decided[stage][rule])
			if n := decided[stage][rule]; n < minCases && *judgedCases >= 500 {
				t.Errorf("%s: %q decides %d verdicts, want %d at least", stage, rule, n, minCases)
			}
			delete(decided[stage], rule)
		}
		if len(decided[stage]) > 0 {
			t.Errorf("%s: rules that are not listed: %v", stage, decided[stage])
		}
	}
}

// judgeOf converts a fleet for the judge, with its first Shoot to be scheduled.
func judgeOf(f *fleet.Fleet, strategy scheduler.Strategy) judge {
	j := judge{minimalDistance: strategy == scheduler.MinimalDistance, shoot: &f.Shoots[0], profile: &f.CloudProfiles[0]}
	j.seeds, j.shoots, j.regionConfigs = slices.Clone(f.Seeds), f.Shoots, slices.Clone(f.ConfigMaps)
	for i := range f.Projects {
		if *f.Projects[i].Spec.Namespace == j.shoot.Namespace {
			j.project = f.Projects[i].Name
		}
	}
	slices.SortFunc(j.seeds, func(a, b corev1beta1.Seed) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(j.regionConfigs, func(a, b corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	return j
}

func compareVerdicts(t *testing.T, want sentence, got scheduler.Result) {
	t.Helper()
	if got.Seed != want.chosen || (got.Seed == "") != (got.Error != "") {
		t.Errorf("seed %q, error %q; the judge says %q", got.Seed, got.Error, want.chosen)
	}
	if diff := cmp.Diff(want.tied, got.TiedSeeds); diff != "" {
		t.Errorf("tied seeds differ (-judge +decision):\n%s", diff)
	}
	if len(want.rulings) != len(got.Verdicts) {
		t.Fatalf("verdicts on %d seeds, want %d", len(got.Verdicts), len(want.rulings))
	}
	for k, r := range want.rulings {
		v := got.Verdicts[k]
		fails := r.fails
		if len(fails) == 0 && r.stage != "" {
			fails = []string{r.stage} // Other seeds are better.
		}
		var reasons []string
		for _, reason := range v.Reasons {
			if reasons = append(reasons, reason.Filter); reason.Reason == "" {
				t.Errorf("seed %s fails %s without a reason", v.Seed, reason.Filter)
			}
		}
		if v.Seed != r.seed || v.Filter != r.stage || v.Passed != (r.stage == "") || (v.Reason == "") != v.Passed {
			t.Errorf("verdict %+v; the judge drops %s in stage %q (%s)", v, r.seed, r.stage, r.rule)
		}
		if diff := cmp.Diff(fails, reasons); diff != "" {
			t.Errorf("seed %s: stages that it fails differ (-judge +verdict):\n%s", v.Seed, diff)
		}
	}
}

// compareChanges checks that the change of each verdict, and that of the Shoot, is sufficient and the smallest.
func compareChanges(t *testing.T, j judge, want sentence, got scheduler.Result, count func(rule string)) {
	t.Helper()
	fewest, first := -1, ""
	for k := range j.seeds {
		if len(want.rulings[k].fails) == 0 {
			continue
		}
		n := j.smallest(&j.seeds[k])
		compareChange(t, j, &j.seeds[k], got.Verdicts[k].Change, n)
		switch {
		case n < 0:
			count("impossible")
			continue
		case n > 1:
			count("of several parts")
			fallthrough
		default:
			count("possible")
		}
		if fewest < 0 || n < fewest {
			fewest, first = n, j.seeds[k].Name
		}
	}
	if _, err := j.configured(); want.chosen != "" || j.minimalDistance && err != nil {
		if want.chosen != "" && got.Change != "" {
			t.Errorf("change %q, but seed %s takes the Shoot", got.Change, want.chosen)
		}
		return // While distances cannot be read, no change helps.
	}
	text := ""
	if fewest > 0 {
		text = fmt.Sprintf("for seed %s: %s", first,
			got.Verdicts[slices.IndexFunc(got.Verdicts, func(v scheduler.Verdict) bool { return v.Seed == first })].Change)
	}
	if got.Change != text {
		t.Errorf("change of the Shoot %q, want that of the seed which needs the fewest: %q", got.Change, text)
	}
	if parts, err := readEdits(strings.TrimPrefix(got.Change, "for seed "+first+": ")); fewest > 0 && err == nil &&
		j.changed(parts...).decide().chosen == "" {
		t.Errorf("no seed takes the Shoot after %q", got.Change)
	}
}

// compareChange checks the change for one seed, which needs n edits; -1: no set suffices.
func compareChange(t *testing.T, j judge, seed *corev1beta1.Seed, text string, n int) {
	t.Helper()
	fails, _ := j.fails(seed)
	if n < 0 || text == "" {
		if text != "" || n >= 0 {
			t.Errorf("seed %s, which fails %v: change %q, the judge finds one of %d parts", seed.Name, fails, text, n)
		}
		return
	}
	parts, err := readEdits(text)
	if err != nil {
		t.Errorf("seed %s: %v", seed.Name, err)
		return
	}
	all := uint(1)<<len(parts) - 1
	if len(parts) != n || !j.changed(parts...).fits(seed) {
		t.Errorf("seed %s, which fails %v: change %q fits: %v; the judge needs %d parts", seed.Name, fails, text,
			j.changed(parts...).fits(seed), n)
	}
	for set := range all {
		if j.changed(chosen(parts, set)...).fits(seed) {
			t.Errorf("seed %s: %d parts of %q are enough", seed.Name, len(chosen(parts, set)), text)
		}
	}
}
