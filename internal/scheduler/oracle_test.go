package scheduler

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
)

// world makes random inputs of decisions, small enough that every filter matters.
type world struct{ *rand.Rand }

func (w world) once(n int) bool { return w.IntN(n) == 0 }

func pick[T any](w world, from ...T) T { return from[w.IntN(len(from))] }

func (w world) some(from ...string) []string {
	var chosen []string
	for _, i := range w.Perm(len(from))[:w.IntN(len(from)+1)] {
		chosen = append(chosen, from[i])
	}
	return chosen
}

func (w world) region() string { return pick(w, "eu-west-1", "eu-central-1", "us-east-1", "asia") }

func (w world) cidr() string {
	return pick(w, "10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/17", "10.3.128.0/17", "100.96.0.0/16",
		"172.16.0.0/14", "10.0.0.0/8",
		"243.1.0.0/16", "fd8f:6d53:b97a:1::/112", "fd00:1::/48", "fd00:1:0:1::/64", "fd00:2::/48")
}

func (w world) tolerations() (list []corev1beta1.Toleration) {
	for _, word := range w.some("a", "a=1", "a=2", "b", "c=1") {
		key, value, valued := strings.Cut(word, "=")
		t := corev1beta1.Toleration{Key: key}
		if valued {
			t.Value = &value
		}
		list = append(list, t)
	}
	return list
}

func (w world) selector() *corev1beta1.SeedSelector {
	if !w.once(3) {
		return nil
	}
	s := &corev1beta1.SeedSelector{}
	if w.once(2) {
		s.MatchLabels = map[string]string{pick(w, "env", "tier"): pick(w, "x", "y")}
	}
	if w.once(3) {
		s.MatchExpressions = []metav1.LabelSelectorRequirement{
			pick(w, metav1.LabelSelectorRequirement{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
				metav1.LabelSelectorRequirement{Key: "tier", Operator: metav1.LabelSelectorOpExists},
				metav1.LabelSelectorRequirement{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"y"}}),
		}
	}
	return s
}

func (w world) seed(name string) *corev1beta1.Seed {
	s := seed(name, w.region())
	s.Spec.Provider.Type = pick(w, "local", "local", "local", "other")
	s.Spec.Provider.Zones = w.some("1", "2", "3", "4")
	s.Spec.Networks = corev1beta1.SeedNetworks{Pods: w.cidr(), Services: w.cidr()}
	if w.once(2) {
		s.Spec.Networks.Nodes = new(w.cidr())
	}
	if w.once(2) {
		s.Spec.Networks.ShootDefaults = &corev1beta1.ShootNetworks{Pods: new(w.cidr()), Services: new(w.cidr())}
	}
	s.Labels = map[string]string{}
	for _, key := range w.some("env", "tier") {
		s.Labels[key] = pick(w, "x", "y")
	}
	if w.once(3) {
		for _, t := range w.tolerations() {
			s.Spec.Taints = append(s.Spec.Taints, corev1beta1.SeedTaint(t))
		}
	}
	for _, name := range w.some("eu-only", "secret") {
		s.Spec.AccessRestrictions = append(s.Spec.AccessRestrictions, corev1beta1.AccessRestriction{Name: name})
	}
	if w.once(2) {
		s.Spec.Settings = &corev1beta1.SeedSettings{
			Scheduling: &corev1beta1.SeedSettingScheduling{Visible: true},
			ZoneSelection: &corev1beta1.SeedSettingZoneSelection{
				Mode: pick(w, corev1beta1.ZoneSelectionPrefer, corev1beta1.ZoneSelectionEnforce),
			},
		}
	}
	for _, domain := range w.some("example.com", "dev.example.com", "example.org") {
		s.Spec.DNS.Defaults = append(s.Spec.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: domain})
	}
	if w.once(3) {
		s.Status.Allocatable = corev1.ResourceList{"shoots": resource.MustParse(pick(w, "0", "1", "2", "100"))}
	}
	if w.once(4) {
		s.Spec.Backup = &corev1beta1.Backup{}
		s.Status.Conditions = append(s.Status.Conditions, corev1beta1.Condition{
			Type: "BackupBucketsReady", Status: pick(w, corev1beta1.ConditionTrue, corev1beta1.ConditionFalse),
		})
	}
	if w.once(8) {
		pick(w, func() { s.Status.LastOperation = nil }, func() { s.DeletionTimestamp = &metav1.Time{} },
			func() { s.Status.Conditions[0].Status = corev1beta1.ConditionUnknown },
			func() { s.Spec.Settings = &corev1beta1.SeedSettings{Scheduling: &corev1beta1.SeedSettingScheduling{}} },
			func() {
				s.Annotations = map[string]string{
					"shoot.gardener.cloud/emergency-stop-reconciliations": pick(w, "true", "1", "false", "", "yes"),
				}
			})()
	}
	return s
}

func (w world) shoot(name string) *corev1beta1.Shoot {
	s := shoot()
	s.Name = name
	s.Spec.Region = w.region()
	s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "profile"}
	if w.once(5) {
		s.Spec.Purpose = new(pick(w, corev1beta1.ShootPurposeTesting, corev1beta1.ShootPurposeProduction))
	}
	s.Spec.SeedSelector = w.selector()
	if w.once(2) {
		s.Spec.Tolerations = w.tolerations()
	}
	if w.once(4) {
		s.Spec.ControlPlane = &corev1beta1.ControlPlane{HighAvailability: &corev1beta1.HighAvailability{
			FailureTolerance: corev1beta1.FailureTolerance{
				Type: pick(w, corev1beta1.FailureToleranceTypeZone, corev1beta1.FailureToleranceTypeNode),
			}}}
	}
	if w.once(6) {
		if s.Spec.ControlPlane == nil {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{}
		}
		s.Spec.ControlPlane.Zones = w.some("1", "2", "3")
	}
	for range w.IntN(3) {
		s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, corev1beta1.Worker{Zones: w.some("1", "2", "9")})
	}
	if w.once(3) {
		for _, name := range w.some("eu-only", "secret") {
			s.Spec.AccessRestrictions = append(s.Spec.AccessRestrictions,
				corev1beta1.AccessRestrictionWithOptions{AccessRestriction: corev1beta1.AccessRestriction{Name: name}})
		}
	}
	if w.once(4) {
		s.Spec.DNS = &corev1beta1.DNS{Domain: new(pick(w, "demo.dev.example.com", "demo.dev.example.org",
			"demo.Dev.example.com", "demo.dev.dev.example.com",
			"other.dev.example.com", "demo.example.net", "example.com"))}
	}
	if w.once(2) {
		s.Spec.Networking = &corev1beta1.Networking{Nodes: new(w.cidr())}
		if w.once(2) {
			s.Spec.Networking.Pods = new(w.cidr())
		}
		if w.once(2) {
			s.Spec.Networking.Services = new(w.cidr())
		}
		s.Spec.Networking.IPFamilies = pick(w, nil, []corev1beta1.IPFamily{"IPv4"}, []corev1beta1.IPFamily{"IPv6"},
			[]corev1beta1.IPFamily{"IPv4", "IPv6"})
		if w.once(6) {
			s.Status.Networking = &corev1beta1.NetworkingStatus{Nodes: []string{w.cidr()}, Pods: []string{w.cidr(), w.cidr()}}
		}
	}
	return s
}

func (w world) distances() map[string]int {
	if w.once(2) {
		return nil
	}
	distances := map[string]int{}
	for _, region := range w.some("eu-west-1", "eu-central-1", "us-east-1", "asia") {
		distances[region] = w.IntN(4) * 10
	}
	return distances
}

func (w world) input() Input {
	in := Input{
		Shoot: w.shoot("demo"), Project: "dev", Profile: &corev1beta1.CloudProfileSpec{Type: "local"},
		Strategy: pick(w, SameRegion, MinimalDistance),
	}
	if in.Strategy == MinimalDistance {
		in.Distances = w.distances()
	}
	if in.Profile.SeedSelector = w.selector(); in.Profile.SeedSelector != nil {
		in.Profile.SeedSelector.ProviderTypes = pick(w, nil, []string{"*"}, []string{"other"}, []string{"local", "other"})
	}
	if w.once(3) {
		for _, name := range w.some("eu-west-1", "eu-central-1", "us-east-1") {
			in.Profile.Regions = append(in.Profile.Regions,
				corev1beta1.Region{Name: name, Zones: []corev1beta1.AvailabilityZone{{Name: "1"}, {Name: "3"}}})
		}
	}
	for i := range w.IntN(6) {
		in.Candidates = append(in.Candidates, Candidate{w.seed(fmt.Sprintf("s%d", i)), w.IntN(4)})
	}
	in.DefaultDomains = domainsOf(in.Candidates)
	return in
}

func domainsOf(candidates []Candidate) []string {
	var seeds []corev1beta1.Seed
	for _, c := range candidates {
		seeds = append(seeds, *c.Seed)
	}
	return DefaultDomains(seeds)
}

// documented is a second implementation of the decision, written from the documents: it returns the equally suitable
// seeds.
func documented(in Input) []string {
	shoot := in.Shoot
	selected := func(selector *corev1beta1.SeedSelector, seed *corev1beta1.Seed) bool {
		if selector == nil {
			return true
		}
		for key, value := range selector.MatchLabels {
			if seed.Labels[key] != value {
				return false
			}
		}
		for _, e := range selector.MatchExpressions {
			value, has := seed.Labels[e.Key]
			ok := map[metav1.LabelSelectorOperator]bool{
				metav1.LabelSelectorOpIn: has && slices.Contains(e.Values, value), metav1.LabelSelectorOpNotIn: !has ||
					!slices.Contains(e.Values, value),
				metav1.LabelSelectorOpExists: has,
			}
			if !ok[e.Operator] {
				return false
			}
		}
		return true
	}
	offers := func(seed *corev1beta1.Seed, domain string) bool {
		for _, d := range seed.Spec.DNS.Defaults {
			if d.Domain == domain {
				return true
			}
		}
		return false
	}
	meets := func(a, b string) bool {
		_, x, err1 := net.ParseCIDR(a)
		_, y, err2 := net.ParseCIDR(b)
		return err1 == nil && err2 == nil && (x.Contains(y.IP) || y.Contains(x.IP))
	}
	zoneTolerance, pinned := false, []string(nil)
	if cp := shoot.Spec.ControlPlane; cp != nil {
		zoneTolerance, pinned = cp.HighAvailability != nil && cp.HighAvailability.FailureTolerance.Type == "zone", cp.Zones
	}
	workerZones := map[string]bool{}
	for _, worker := range shoot.Spec.Provider.Workers {
		for _, zone := range worker.Zones {
			workerZones[zone] = true
		}
	}
	mode := func(seed *corev1beta1.Seed) string {
		if seed.Spec.Settings == nil || seed.Spec.Settings.ZoneSelection == nil {
			return ""
		}
		return string(seed.Spec.Settings.ZoneSelection.Mode)
	}
	shares := func(seed *corev1beta1.Seed) bool {
		return slices.ContainsFunc(seed.Spec.Provider.Zones, func(zone string) bool { return workerZones[zone] })
	}
	var left []Candidate
	for _, c := range in.Candidates {
		seed, spec := c.Seed, c.Seed.Spec
		is := map[string]bool{}
		for _, condition := range seed.Status.Conditions {
			is[string(condition.Type)] = condition.Status == "True"
		}
		visible := spec.Settings == nil || spec.Settings.Scheduling == nil || spec.Settings.Scheduling.Visible
		if seed.DeletionTimestamp != nil || !visible || seed.Status.LastOperation == nil || !is["GardenletReady"] ||
			spec.Backup != nil && !is["BackupBucketsReady"] {
			continue
		}
		if !selected(in.Profile.SeedSelector, seed) || !selected(shoot.Spec.SeedSelector, seed) {
			continue
		}
		if s := in.Profile.SeedSelector; s != nil && len(s.ProviderTypes) > 0 {
			if !slices.Contains(s.ProviderTypes, "*") && !slices.Contains(s.ProviderTypes, spec.Provider.Type) {
				continue
			}
		} else if spec.Provider.Type != shoot.Spec.Provider.Type {
			continue
		}
		if zoneTolerance && len(spec.Provider.Zones) < 3 {
			continue
		}
		if len(pinned) > 0 {
			if slices.ContainsFunc(pinned, func(zone string) bool { return !slices.Contains(spec.Provider.Zones, zone) }) {
				continue
			}
		} else if !zoneTolerance && mode(seed) == "Enforce" && len(workerZones) > 0 && !shares(seed) {
			continue
		}
		fits := true
		for _, r := range shoot.Spec.AccessRestrictions {
			fits = fits && slices.Contains(spec.AccessRestrictions, r.AccessRestriction)
		}
		if shoot.Spec.DNS != nil && shoot.Spec.DNS.Domain != nil {
			below, own := false, false
			for _, domain := range []string{"example.com", "dev.example.com", "example.org"} {
				known := slices.Contains(in.DefaultDomains, domain)
				below = below || known && strings.HasSuffix(*shoot.Spec.DNS.Domain, "."+domain)
				own = own || offers(seed, domain) && *shoot.Spec.DNS.Domain == shoot.Name+".dev."+domain
			}
			fits = fits && (!below || own)
		}
		switch seed.Annotations["shoot.gardener.cloud/emergency-stop-reconciliations"] {
		case "true", "1":
			continue
		}
		if n := shoot.Spec.Networking; n != nil {
			own := []*string{n.Nodes, n.Pods, n.Services}
			if d := spec.Networks.ShootDefaults; d != nil {
				completed := func(cidr *string) *string {
					family := corev1beta1.IPFamily("IPv4")
					if strings.Contains(*cidr, ":") {
						family = "IPv6"
					}
					if slices.Contains(n.IPFamilies, family) || n.IPFamilies == nil && family == "IPv4" {
						return cidr
					}
					return nil
				}
				if own[1] == nil && len(shoot.Spec.Provider.Workers) > 0 {
					own[1] = completed(d.Pods)
				}
				if own[2] == nil {
					own[2] = completed(d.Services)
				}
			}
			if status := shoot.Status.Networking; status != nil {
				for _, cidr := range slices.Concat(status.Nodes, status.Pods, status.Services) {
					own = append(own, &cidr)
				}
			}
			for _, cidr := range own {
				if cidr == nil {
					continue
				}
				others := []string{"240.0.0.0/6", "244.0.0.0/8", "fd8f:6d53:b97a:1::/96", spec.Networks.Services}
				if strings.Contains(*cidr, ":") {
					others = append(others, spec.Networks.Pods)
					if spec.Networks.Nodes != nil {
						others = append(others, *spec.Networks.Nodes)
					}
				}
				fits = fits && !slices.ContainsFunc(others, func(other string) bool { return meets(*cidr, other) })
			}
		}
		fits = fits && len(shoot.Spec.Tolerations) >= len(spec.Taints)
		for _, taint := range spec.Taints {
			fits = fits && slices.ContainsFunc(shoot.Spec.Tolerations, func(t corev1beta1.Toleration) bool {
				return t.Key == taint.Key && (taint.Value == nil || t.Value != nil && *t.Value == *taint.Value)
			})
		}
		if limit, limited := seed.Status.Allocatable["shoots"]; limited && limit.Value() <= int64(c.Shoots) {
			continue
		}
		if fits {
			left = append(left, c)
		}
	}

	keep := func(good func(Candidate) bool) {
		left = slices.DeleteFunc(left, func(c Candidate) bool { return !good(c) })
	}
	sameType := func(c Candidate) bool { return c.Seed.Spec.Provider.Type == shoot.Spec.Provider.Type }
	testing := shoot.Spec.Purpose != nil && *shoot.Spec.Purpose == "testing"
	byDistance := in.Strategy == MinimalDistance && !testing
	switch {
	case testing:
		keep(sameType)
	case in.Strategy == SameRegion:
		keep(func(c Candidate) bool { return sameType(c) && c.Seed.Spec.Provider.Region == shoot.Spec.Region })
	}
	preferred := func(c Candidate) bool { return mode(c.Seed) != "Prefer" || shares(c.Seed) }
	if len(workerZones) > 0 && !zoneTolerance && len(pinned) == 0 && slices.ContainsFunc(left, preferred) {
		keep(preferred)
	}
	const never = 1 << 20
	distance := func(c Candidate) int {
		region := c.Seed.Spec.Provider.Region
		if d, ok := in.Distances[region]; ok {
			return d
		} else if in.Distances != nil && region == shoot.Spec.Region {
			return 0
		}
		return never
	}
	if !slices.ContainsFunc(left, func(c Candidate) bool { return distance(c) != never }) {
		distance = func(c Candidate) int {
			d := RegionDistance(c.Seed.Spec.Provider.Region, shoot.Spec.Region)
			if !sameType(c) {
				d += 2
			}
			return d
		}
	}
	if !byDistance {
		distance = func(Candidate) int { return 0 }
	}
	nearest, fewest := never, never
	for _, c := range left {
		nearest = min(nearest, distance(c))
	}
	for _, c := range left {
		if distance(c) == nearest {
			fewest = min(fewest, c.Shoots)
		}
	}
	best := []string{}
	for _, c := range left {
		if distance(c) == nearest && c.Shoots == fewest {
			best = append(best, c.Seed.Name)
		}
	}
	return best
}

func TestDecideAsDocumented(t *testing.T) {
	w := world{rand.New(rand.NewPCG(3, 4))}
	placed := 0
	for i := range 20000 {
		in := w.input()
		d, want := Decide(in), documented(in)
		if diff := cmp.Diff(want, d.TiedSeeds); diff != "" {
			t.Fatalf("case %d: decision differs from the documents (-documents +decision):\n%s\n%+v", i, diff, d)
		}
		if len(want) > 0 {
			placed++
		}
		if (len(want) == 0) != (d.Seed == "") || len(want) > 0 && d.Seed != want[0] || (d.Seed == "") != (d.Error != "") {
			t.Fatalf("case %d: seed %q of %v, error %q", i, d.Seed, want, d.Error)
		}
		for j, v := range d.Verdicts {
			if v.Seed != in.Candidates[j].Seed.Name || v.Passed != (v.Filter == "") || v.Passed != (v.Reason == "") {
				t.Fatalf("case %d: incomplete verdict %+v", i, v)
			}
		}
	}
	if placed < 2000 {
		t.Errorf("only %d Shoots were scheduled: the cases are too hard to be meaningful", placed)
	}
}

func TestScheduleCountsAsItGoes(t *testing.T) {
	w := world{rand.New(rand.NewPCG(5, 6))}
	for i := range 300 {
		f, order := &fleet.Fleet{CloudProfiles: []corev1beta1.CloudProfile{{ObjectMeta: metav1.ObjectMeta{Name: "profile"}}}},
			[]Result{}
		counts := map[string]int{}
		var in Input
		in.Profile, in.Strategy = &corev1beta1.CloudProfileSpec{}, pick(w, SameRegion, MinimalDistance)
		for j := range 1 + w.IntN(3) {
			f.Seeds = append(f.Seeds, *w.seed(fmt.Sprintf("s%d", j)))
		}
		for j := range 12 {
			s := w.shoot(fmt.Sprintf("demo-%d", j))
			pick(w, func() {}, func() {}, func() { s.Spec.SeedName = new("s0") },
				func() { s.Spec.SeedName, s.Status.SeedName = new("s0"), new("s1") },
				func() { s.DeletionTimestamp = &metav1.Time{} }, func() { s.Spec.SchedulerName = new("own") })()
			for _, name := range []*string{s.Spec.SeedName, s.Status.SeedName} {
				if name != nil {
					counts[*name]++
				}
			}
			f.Shoots = append(f.Shoots, *s)
		}
		for j := range f.Shoots {
			s := &f.Shoots[j]
			if s.Spec.SeedName != nil || s.DeletionTimestamp != nil || s.Spec.SchedulerName != nil {
				continue
			}
			in.Shoot, in.Candidates = s, nil
			s.Namespace = "garden-dev"
			for k := range f.Seeds {
				in.Candidates = append(in.Candidates, Candidate{&f.Seeds[k], counts[f.Seeds[k].Name]})
			}
			in.DefaultDomains = domainsOf(in.Candidates)
			tied, chosen := documented(in), ""
			if len(tied) > 0 {
				chosen = tied[0]
				counts[chosen]++
			}
			order = append(order, Result{Name: s.Name, Decision: Decision{Seed: chosen, TiedSeeds: tied}})
		}
		got := []Result{}
		for _, r := range Schedule(f, "default-scheduler", in.Strategy, func(*corev1beta1.Shoot) bool { return true }) {
			got = append(got, Result{Name: r.Name, Decision: Decision{Seed: r.Seed, TiedSeeds: r.TiedSeeds}})
		}
		if diff := cmp.Diff(order, got); diff != "" {
			t.Fatalf("case %d: (-documents +Schedule):\n%s", i, diff)
		}
	}
}

func TestSmallestChangeIsEnough(t *testing.T) {
	w := world{rand.New(rand.NewPCG(7, 8))}
	named := 0
	for i := range 20000 {
		in := w.input()
		change := SmallestChange(in)
		if Decide(in).Seed != "" {
			if change != "" {
				t.Fatalf("case %d: the Shoot fits, but has a change: %s", i, change)
			}
			continue
		}
		fewest := 0
		for _, c := range in.Candidates {
			fixes, possible := fixesFor(in, c)
			if !possible {
				continue
			}
			if d := Decide(in.with(fixes)); d.Seed == "" {
				t.Fatalf("case %d: with the changes for seed %s the Shoot still does not fit: %s", i, c.Seed.Name, d.Error)
			}
			if len(documented(in.with(fixes))) == 0 {
				t.Fatalf("case %d: with the changes for seed %s the Shoot does not fit by the documents", i, c.Seed.Name)
			}
			if fewest == 0 || len(fixes) < fewest {
				fewest = len(fixes)
			}
		}
		if got := strings.Count(change, ", and ") + 1; fewest > 0 && got != fewest || (fewest > 0) != (change != "") {
			t.Fatalf("case %d: change %q, possible with %d", i, change, fewest)
		}
		if change != "" {
			named++
		}
	}
	if named < 2000 {
		t.Errorf("a change was named only %d times", named)
	}
}

func TestSmallestChange(t *testing.T) {
	taint := func(key string) func(*corev1beta1.Seed) { return tainted(corev1beta1.SeedTaint{Key: key}) }
	restricted := func(names ...string) *corev1beta1.Shoot {
		return shoot(func(s *corev1beta1.Shoot) {
			for _, name := range names {
				s.Spec.AccessRestrictions = append(s.Spec.AccessRestrictions,
					corev1beta1.AccessRestrictionWithOptions{AccessRestriction: corev1beta1.AccessRestriction{Name: name}})
			}
		})
	}
	pools := func(zones ...string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers = []corev1beta1.Worker{{Zones: zones}} }
	}
	pinned := func(zones ...string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Spec.ControlPlane = &corev1beta1.ControlPlane{Zones: zones} }
	}
	zoneTolerant := func(s *corev1beta1.Shoot) {
		if s.Spec.ControlPlane == nil {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{}
		}
		s.Spec.ControlPlane.HighAvailability = &corev1beta1.HighAvailability{
			FailureTolerance: corev1beta1.FailureTolerance{Type: corev1beta1.FailureToleranceTypeZone}}
	}
	in := func(zones ...string) func(*corev1beta1.Seed) {
		return func(s *corev1beta1.Seed) { s.Spec.Provider.Zones = zones }
	}
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		seeds []*corev1beta1.Seed
		want  string
	}{
		"nothing if the Shoot fits": {
			shoot(), []*corev1beta1.Seed{seed("a", "eu-west-1"), seed("b", "eu-west-1", taint("x"))}, "",
		},
		"nothing if no change helps": {
			shoot(), []*corev1beta1.Seed{seed("a", "eu-west-1", func(s *corev1beta1.Seed) { s.Spec.Provider.Type = "other" })},
			"",
		},
		"the nearest of two seeds to reach": {
			shoot(), []*corev1beta1.Seed{seed("a", "eu-east-1", taint("x")), seed("b", "eu-west-1", taint("y"))},
			"for seed b: add to the end of spec.tolerations: y",
		},
		"all requirements of a seed": {shoot(), []*corev1beta1.Seed{seed("a", "eu-east-1", taint("x"))},
			`for seed a: add to the end of spec.tolerations: x, and create the Shoot in region "eu-east-1"`},
		"all access restrictions": {restricted("eu-only", "secret"), []*corev1beta1.Seed{seed("a", "eu-west-1")},
			`for seed a: remove the access restriction "eu-only", and remove the access restriction "secret"`},
		"all networks, with ranges that are free": {shoot(func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{
				Nodes: new("100.64.0.0/16"), Pods: new("10.244.0.0/16"), Services: new("10.0.0.0/25"),
			}
		}), []*corev1beta1.Seed{seed("a", "eu-west-1")},
			"for seed a: create the Shoot with spec.networking.services 100.65.0.0/25 instead of 10.0.0.0/25"},
		"no zone tolerance where there are too few zones": {shoot(zoneTolerant),
			[]*corev1beta1.Seed{seed("a", "eu-west-1", in("1", "2"))},
			"for seed a: create the Shoot with spec.controlPlane.highAvailability.failureTolerance.type node"},
		"zones of the seed for the control plane": {shoot(pinned("9")),
			[]*corev1beta1.Seed{seed("a", "eu-west-1", in("1", "2"))},
			"for seed a: create the Shoot with spec.controlPlane.zones [1]"},
		"three zones with zone tolerance": {shoot(pinned("1", "2", "9"), zoneTolerant),
			[]*corev1beta1.Seed{seed("a", "eu-west-1", in("1", "2", "3", "4"))},
			"for seed a: create the Shoot with spec.controlPlane.zones [1, 2, 3]"},
		"no zones, where the seed has none": {shoot(pinned("9")), []*corev1beta1.Seed{seed("a", "eu-west-1", in())},
			"for seed a: create the Shoot without spec.controlPlane.zones"},
		"a zone of the seed for workers": {shoot(pools("9")),
			[]*corev1beta1.Seed{seed("a", "eu-west-1", in("1", "2"), selecting(corev1beta1.ZoneSelectionEnforce))},
			`for seed a: add zone "2" to spec.provider.workers[0].zones`},
		"nothing if workers cannot be in zones of the seed": {shoot(pools("9")),
			[]*corev1beta1.Seed{seed("a", "eu-west-1", in("1"), selecting(corev1beta1.ZoneSelectionEnforce))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			profile := &corev1beta1.CloudProfileSpec{Regions: []corev1beta1.Region{
				{Name: "eu-west-1", Zones: []corev1beta1.AvailabilityZone{{Name: "2"}}}, {Name: "eu-east-1"}}}
			in := Input{Shoot: tc.shoot, Profile: profile, Strategy: SameRegion}
			for _, s := range tc.seeds {
				in.Candidates = append(in.Candidates, Candidate{Seed: s})
			}
			if diff := cmp.Diff(tc.want, SmallestChange(in)); diff != "" {
				t.Errorf("SmallestChange() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func selecting(mode corev1beta1.ZoneSelectionMode) func(*corev1beta1.Seed) {
	return func(s *corev1beta1.Seed) {
		s.Spec.Settings = &corev1beta1.SeedSettings{
			Scheduling:    &corev1beta1.SeedSettingScheduling{Visible: true},
			ZoneSelection: &corev1beta1.SeedSettingZoneSelection{Mode: mode},
		}
	}
}

func TestFreeRange(t *testing.T) {
	for _, tc := range []struct{ like, taken, want string }{
		{"10.0.0.0/16", "", "100.64.0.0/16"},
		{"10.0.0.0/16", "100.64.0.0/10", "10.0.0.0/16"},
		{"10.0.0.0/16", "100.64.0.0/10 10.0.0.0/24", "10.1.0.0/16"},
		{"10.0.0.0/9", "10.0.0.0/9", "10.128.0.0/9"},
		{"10.0.0.0/9", "10.0.0.0/8", ""},
		{"10.0.0.0/7", "", ""},
		{"2001:db8::/64", "fd00::/16", "fd01::/64"},
		{"2001:db8::/64", "fd00::/8", ""},
		{"no range", "", ""},
	} {
		if got := freeRange(tc.like, strings.Fields(tc.taken)); got != tc.want {
			t.Errorf("freeRange(%q, %q) = %q, want %q", tc.like, tc.taken, got, tc.want)
		}
	}
}

func TestUsageReportsFreedPlaces(t *testing.T) {
	var u Usage
	s := shoot(func(s *corev1beta1.Shoot) { s.UID = types.UID("1") })
	for _, step := range []struct {
		what            string
		wanted, present *string
		left            bool
	}{
		{"waiting", nil, nil, false},
		{"assigned", new("a"), nil, false},
		{"running", new("a"), new("a"), false},
		{"to be moved", new("b"), new("a"), false},
		{"moved", new("b"), new("b"), true},
	} {
		s.Spec.SeedName, s.Status.SeedName = step.wanted, step.present
		if left := u.Set(s); left != step.left {
			t.Errorf("%s: a place is free: %v, want %v", step.what, left, step.left)
		}
	}
	if !u.Remove(s) || u.Remove(s) {
		t.Error("the end of a Shoot frees its place only once")
	}

	waiting := shoot(func(s *corev1beta1.Shoot) { s.UID = types.UID("2") })
	u.Assume(waiting, "a")
	u.Revert(waiting, "a")
	if u.Of("a") != 0 {
		t.Error("a reverted assumption is still counted")
	}
	u.Assume(waiting, "a")
	elsewhere := waiting.DeepCopy()
	elsewhere.Spec.SeedName = new("b")
	u.Set(elsewhere)
	u.Revert(waiting, "a")
	if u.Of("a") != 0 || u.Of("b") != 1 {
		t.Errorf("an event of the watch is lost: a has %d, b %d", u.Of("a"), u.Of("b"))
	}
}

func TestExplain(t *testing.T) {
	in := Input{Shoot: shoot(), Strategy: SameRegion, Candidates: []Candidate{
		{Seed: seed("good", "eu-west-1")},
		{Seed: seed("hopeless", "eu-east-1", tainted(corev1beta1.SeedTaint{Key: "x"}),
			func(s *corev1beta1.Seed) { s.Status.LastOperation = nil })},
		{Seed: seed("possible", "eu-east-1", tainted(corev1beta1.SeedTaint{Key: "x"}))},
	}}
	d := Decide(in)
	Explain(in, &d)
	notInRegion := Reason{Filter: "region", Reason: `it is in region "eu-east-1", the Shoot in "eu-west-1"`}
	taint := Reason{Filter: "taints", Reason: "its taints are not tolerated by the Shoot's spec.tolerations: x"}
	unused := Reason{Filter: "usable", Reason: "its gardenlet has not reconciled it yet (no status.lastOperation)"}
	want := []Verdict{
		{Seed: "good", Passed: true},
		{Seed: "hopeless", Filter: "usable", Reason: unused.Reason, Reasons: []Reason{unused, taint, notInRegion}},
		{Seed: "possible", Filter: "taints", Reason: taint.Reason, Reasons: []Reason{taint, notInRegion},
			Change: `add to the end of spec.tolerations: x, and create the Shoot in region "eu-east-1"`},
	}
	if diff := cmp.Diff(want, d.Verdicts); diff != "" {
		t.Errorf("Explain() mismatch (-want +got):\n%s", diff)
	}
}

// Each change in a verdict makes its seed fit, independently of the other seeds.
func TestExplainedChangesAreEnough(t *testing.T) {
	w := world{rand.New(rand.NewPCG(9, 10))}
	named := 0
	for i := range 5000 {
		in := w.input()
		d := Decide(in)
		before := d.Seed
		Explain(in, &d)
		for j, v := range d.Verdicts {
			if len(v.Reasons) == 0 != v.Passed || !v.Passed && (v.Reasons[0] != Reason{v.Filter, v.Reason}) || d.Seed != before {
				t.Fatalf("case %d: verdict %+v", i, v)
			}
			if v.Change == "" {
				continue
			}
			named++
			fixes, _ := fixesFor(in, in.Candidates[j])
			alone := in.with(fixes)
			alone.Candidates = in.Candidates[j : j+1]
			if got := documented(alone); len(got) != 1 {
				t.Fatalf("case %d: seed %s does not fit after: %s", i, v.Seed, v.Change)
			}
		}
	}
	if named < 1000 {
		t.Errorf("only %d changes were named", named)
	}
}
