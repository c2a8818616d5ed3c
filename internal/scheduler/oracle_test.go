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
	return pick(w, "10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/17", "10.3.128.0/17", "100.96.0.0/16", "172.16.0.0/14", "10.0.0.0/8")
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
	for _, domain := range w.some("example.com", "example.org") {
		s.Spec.DNS.Defaults = append(s.Spec.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: domain})
	}
	if w.once(3) {
		s.Status.Allocatable = corev1.ResourceList{"shoots": resource.MustParse(pick(w, "0", "1", "2", "100"))}
	}
	if w.once(4) {
		s.Spec.Backup = &corev1beta1.Backup{}
		s.Status.Conditions = append(s.Status.Conditions, corev1beta1.Condition{Type: "BackupBucketsReady", Status: pick(w, corev1beta1.ConditionTrue, corev1beta1.ConditionFalse)})
	}
	if w.once(8) {
		pick(w, func() { s.Status.LastOperation = nil }, func() { s.DeletionTimestamp = &metav1.Time{} },
			func() { s.Status.Conditions[0].Status = corev1beta1.ConditionUnknown },
			func() { s.Spec.Settings = &corev1beta1.SeedSettings{Scheduling: &corev1beta1.SeedSettingScheduling{}} },
			func() {
				s.Annotations = map[string]string{"shoot.gardener.cloud/emergency-stop-reconciliations": "true"}
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
			FailureTolerance: corev1beta1.FailureTolerance{Type: pick(w, corev1beta1.FailureToleranceTypeZone, corev1beta1.FailureToleranceTypeNode)}}}
	}
	if w.once(3) {
		for _, name := range w.some("eu-only", "secret") {
			s.Spec.AccessRestrictions = append(s.Spec.AccessRestrictions, corev1beta1.AccessRestrictionWithOptions{AccessRestriction: corev1beta1.AccessRestriction{Name: name}})
		}
	}
	if w.once(4) {
		s.Spec.DNS = &corev1beta1.DNS{Domain: new(pick(w, "demo.dev.example.com", "demo.example.net", "example.com"))}
	}
	if w.once(2) {
		s.Spec.Networking = &corev1beta1.Networking{Nodes: new(w.cidr())}
		if w.once(2) {
			s.Spec.Networking.Pods = new(w.cidr())
		}
		if w.once(2) {
			s.Spec.Networking.Services = new(w.cidr())
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
	in := Input{Shoot: w.shoot("demo"), Profile: &corev1beta1.CloudProfileSpec{Type: "local"}, Strategy: pick(w, SameRegion, MinimalDistance)}
	if in.Strategy == MinimalDistance {
		in.Distances = w.distances()
	}
	if in.Profile.SeedSelector = w.selector(); in.Profile.SeedSelector != nil {
		in.Profile.SeedSelector.ProviderTypes = pick(w, nil, []string{"*"}, []string{"other"}, []string{"local", "other"})
	}
	if w.once(3) {
		for _, name := range w.some("eu-west-1", "eu-central-1", "us-east-1") {
			in.Profile.Regions = append(in.Profile.Regions, corev1beta1.Region{Name: name})
		}
	}
	for i := range w.IntN(6) {
		in.Candidates = append(in.Candidates, Candidate{w.seed(fmt.Sprintf("s%d", i)), w.IntN(4)})
	}
	return in
}

// documented is a second decision, written straight from the documents: it returns the seeds that are equally good.
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
				metav1.LabelSelectorOpIn: has && slices.Contains(e.Values, value), metav1.LabelSelectorOpNotIn: !has || !slices.Contains(e.Values, value),
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
	disjoint := func(a, b *string) bool {
		if a == nil || b == nil {
			return true
		}
		_, x, _ := net.ParseCIDR(*a)
		_, y, _ := net.ParseCIDR(*b)
		return !x.Contains(y.IP) && !y.Contains(x.IP)
	}
	var left []Candidate
	for _, c := range in.Candidates {
		seed, spec := c.Seed, c.Seed.Spec
		is := map[string]bool{}
		for _, condition := range seed.Status.Conditions {
			is[string(condition.Type)] = condition.Status == "True"
		}
		visible := spec.Settings == nil || spec.Settings.Scheduling == nil || spec.Settings.Scheduling.Visible
		if seed.DeletionTimestamp != nil || !visible || seed.Status.LastOperation == nil || !is["GardenletReady"] || spec.Backup != nil && !is["BackupBucketsReady"] {
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
		if cp := shoot.Spec.ControlPlane; cp != nil && cp.HighAvailability.FailureTolerance.Type == "zone" && len(spec.Provider.Zones) < 3 {
			continue
		}
		fits := true
		for _, r := range shoot.Spec.AccessRestrictions {
			fits = fits && slices.Contains(spec.AccessRestrictions, r.AccessRestriction)
		}
		if shoot.Spec.DNS != nil && shoot.Spec.DNS.Domain != nil {
			for _, domain := range []string{"example.com", "example.org"} {
				known := slices.ContainsFunc(in.Candidates, func(c Candidate) bool { return offers(c.Seed, domain) })
				fits = fits && (!known || !strings.HasSuffix(*shoot.Spec.DNS.Domain, "."+domain) || offers(seed, domain))
			}
		}
		if _, stopped := seed.Annotations["shoot.gardener.cloud/emergency-stop-reconciliations"]; stopped {
			continue
		}
		var nodes, pods, services *string
		if n := shoot.Spec.Networking; n != nil {
			nodes, pods, services = n.Nodes, n.Pods, n.Services
		}
		if d := spec.Networks.ShootDefaults; d != nil && pods == nil {
			pods = d.Pods
		}
		if d := spec.Networks.ShootDefaults; d != nil && services == nil {
			services = d.Services
		}
		for _, own := range []*string{nodes, pods, services} {
			fits = fits && disjoint(own, spec.Networks.Nodes) && disjoint(own, &spec.Networks.Pods) && disjoint(own, &spec.Networks.Services)
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

	distance := func(c Candidate) int {
		const never = 1 << 20
		p := c.Seed.Spec.Provider
		sameType, sameRegion := p.Type == shoot.Spec.Provider.Type, p.Region == shoot.Spec.Region
		switch {
		case shoot.Spec.Purpose != nil && *shoot.Spec.Purpose == "testing":
			if sameType {
				return 0
			}
		case in.Strategy == SameRegion:
			if sameType && sameRegion {
				return 0
			}
		case in.Distances != nil:
			if d, ok := in.Distances[p.Region]; ok {
				return d
			}
			if sameRegion {
				return 0
			}
		case sameType:
			return RegionDistance(p.Region, shoot.Spec.Region)
		default:
			return RegionDistance(p.Region, shoot.Spec.Region) + 2
		}
		return never
	}
	nearest, fewest := 1<<20-1, 1<<20
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
		t.Errorf("only %d Shoots were placed: the cases are too hard to say much", placed)
	}
}

func TestScheduleCountsAsItGoes(t *testing.T) {
	w := world{rand.New(rand.NewPCG(5, 6))}
	for i := range 300 {
		f, order := &Fleet{CloudProfiles: []corev1beta1.CloudProfile{{ObjectMeta: metav1.ObjectMeta{Name: "profile"}}}}, []Result{}
		counts := map[string]int{}
		var in Input
		in.Profile, in.Strategy = &corev1beta1.CloudProfileSpec{}, pick(w, SameRegion, MinimalDistance)
		for j := range 1 + w.IntN(3) {
			f.Seeds = append(f.Seeds, *w.seed(fmt.Sprintf("s%d", j)))
		}
		for j := range 12 {
			s := w.shoot(fmt.Sprintf("demo-%d", j))
			pick(w, func() {}, func() {}, func() { s.Spec.SeedName = new("s0") }, func() { s.Spec.SeedName, s.Status.SeedName = new("s0"), new("s1") },
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
			for k := range f.Seeds {
				in.Candidates = append(in.Candidates, Candidate{&f.Seeds[k], counts[f.Seeds[k].Name]})
			}
			tied, chosen := documented(in), ""
			if len(tied) > 0 {
				chosen = tied[0]
				counts[chosen]++
			}
			order = append(order, Result{Name: s.Name, Decision: Decision{Seed: chosen, TiedSeeds: tied}})
		}
		got := []Result{}
		for _, r := range f.Schedule("default-scheduler", in.Strategy, func(*corev1beta1.Shoot) bool { return true }) {
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
				t.Fatalf("case %d: the Shoot fits, but is told to change: %s", i, change)
			}
			continue
		}
		domains := defaultDomains(in.Candidates)
		fewest := 0
		for _, c := range in.Candidates {
			fixes, possible := fixesFor(in, c, domains)
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
				s.Spec.AccessRestrictions = append(s.Spec.AccessRestrictions, corev1beta1.AccessRestrictionWithOptions{AccessRestriction: corev1beta1.AccessRestriction{Name: name}})
			}
		})
	}
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		seeds []*corev1beta1.Seed
		want  string
	}{
		"nothing if the Shoot fits":         {shoot(), []*corev1beta1.Seed{seed("a", "eu-west-1"), seed("b", "eu-west-1", taint("x"))}, ""},
		"nothing if no change helps":        {shoot(), []*corev1beta1.Seed{seed("a", "eu-west-1", func(s *corev1beta1.Seed) { s.Spec.Provider.Type = "other" })}, ""},
		"the nearest of two seeds to reach": {shoot(), []*corev1beta1.Seed{seed("a", "eu-east-1", taint("x")), seed("b", "eu-west-1", taint("y"))}, "for seed b: add to the end of spec.tolerations: y"},
		"all that a seed demands": {shoot(), []*corev1beta1.Seed{seed("a", "eu-east-1", taint("x"))},
			`for seed a: add to the end of spec.tolerations: x, and create the Shoot in region "eu-east-1"`},
		"all access restrictions": {restricted("eu-only", "secret"), []*corev1beta1.Seed{seed("a", "eu-west-1")},
			`for seed a: remove the access restriction "eu-only", and remove the access restriction "secret"`},
		"all networks, with ranges that are free": {shoot(func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{Nodes: new("100.64.0.0/16"), Pods: new("10.244.0.0/16"), Services: new("10.0.0.0/25")}
		}), []*corev1beta1.Seed{seed("a", "eu-west-1")},
			"for seed a: create the Shoot with spec.networking.pods 100.65.0.0/16 instead of 10.244.0.0/16, and create the Shoot with spec.networking.services 100.66.0.0/25 instead of 10.0.0.0/25"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Shoot: tc.shoot}
			for _, s := range tc.seeds {
				in.Candidates = append(in.Candidates, Candidate{Seed: s})
			}
			if diff := cmp.Diff(tc.want, SmallestChange(in)); diff != "" {
				t.Errorf("SmallestChange() mismatch (-want +got):\n%s", diff)
			}
		})
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
		var taken []network
		for _, cidr := range strings.Fields(tc.taken) {
			taken = append(taken, network{cidr: cidr})
		}
		if got := freeRange(tc.like, taken); got != tc.want {
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
		t.Error("the end of a Shoot frees its place just once")
	}

	waiting := shoot(func(s *corev1beta1.Shoot) { s.UID = types.UID("2") })
	u.Assume(waiting, "a")
	u.Revert(waiting, "a")
	if u.Of("a") != 0 {
		t.Error("an assumption that was taken back is still counted")
	}
	u.Assume(waiting, "a")
	elsewhere := waiting.DeepCopy()
	elsewhere.Spec.SeedName = new("b")
	u.Set(elsewhere)
	u.Revert(waiting, "a")
	if u.Of("a") != 0 || u.Of("b") != 1 {
		t.Errorf("what the watch has brought is lost: a has %d, b %d", u.Of("a"), u.Of("b"))
	}
}
