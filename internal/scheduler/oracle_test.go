package scheduler

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
)

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
