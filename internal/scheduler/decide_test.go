package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func seed(name, region string, change ...func(*corev1beta1.Seed)) *corev1beta1.Seed {
	s := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Provider = corev1beta1.SeedProvider{Type: "local", Region: region, Zones: []string{"a"}}
	s.Spec.Networks = corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"}
	s.Status.LastOperation = &corev1beta1.LastOperation{}
	s.Status.Conditions = []corev1beta1.Condition{{
		Type: corev1beta1.SeedGardenletReady, Status: corev1beta1.ConditionTrue,
	}}
	for _, c := range change {
		c(s)
	}
	return s
}

func shoot(change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "garden-dev"}}
	s.Spec.Region = "eu-west-1"
	s.Spec.Provider.Type = "local"
	for _, c := range change {
		c(s)
	}
	return s
}

func tainted(taints ...corev1beta1.SeedTaint) func(*corev1beta1.Seed) {
	return func(s *corev1beta1.Seed) { s.Spec.Taints = taints }
}

func decide(in Input, seeds ...*corev1beta1.Seed) Decision {
	for _, s := range seeds {
		in.Candidates = append(in.Candidates, Candidate{Seed: s})
	}
	if in.Shoot == nil {
		in.Shoot = shoot()
	}
	if in.Strategy == "" {
		in.Strategy = SameRegion
	}
	in.DefaultDomains = append(in.DefaultDomains, domainsOf(in.Candidates)...)
	return Decide(in)
}

func TestDecideFilters(t *testing.T) {
	for name, tc := range map[string]struct {
		seed   *corev1beta1.Seed
		shoot  *corev1beta1.Shoot
		input  Input
		filter string // Empty: the seed is chosen.
	}{
		"a fitting seed is chosen": {seed: seed("s", "eu-west-1")},
		"a seed in deletion": {
			seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) { s.DeletionTimestamp = &metav1.Time{} }), filter: "usable",
		},
		"an invisible seed": {seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) {
			s.Spec.Settings = &corev1beta1.SeedSettings{Scheduling: &corev1beta1.SeedSettingScheduling{Visible: false}}
		}), filter: "usable"},
		"a seed that was never reconciled": {
			seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) { s.Status.LastOperation = nil }), filter: "usable",
		},
		"a seed whose gardenlet is lost": {
			seed: seed("s", "eu-west-1",
				func(s *corev1beta1.Seed) { s.Status.Conditions[0].Status = corev1beta1.ConditionUnknown }), filter: "usable",
		},
		"a seed with broken backup": {
			seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) { s.Spec.Backup = &corev1beta1.Backup{} }), filter: "usable",
		},
		"labels that the CloudProfile does not select": {seed: seed("s", "eu-west-1"),
			input: Input{Profile: &corev1beta1.CloudProfileSpec{SeedSelector: &corev1beta1.SeedSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}}, filter: "cloud-profile-selector"},
		"labels that the Shoot does not select": {seed: seed("s", "eu-west-1"), shoot: shoot(func(s *corev1beta1.Shoot) {
			s.Spec.SeedSelector = &corev1beta1.SeedSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			}
		}), filter: "seed-selector"},
		"another provider": {
			seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) { s.Spec.Provider.Type = "other" }), filter: "provider-type",
		},
		"another provider that the CloudProfile allows, but far for SameRegion": {seed: seed("s", "eu-west-1",
			func(s *corev1beta1.Seed) { s.Spec.Provider.Type = "other" }),
			input: Input{
				Profile: &corev1beta1.CloudProfileSpec{SeedSelector: &corev1beta1.SeedSelector{ProviderTypes: []string{"*"}}},
			}, filter: "region"},
		"another provider that the CloudProfile allows, by distance": {seed: seed("s", "eu-west-1",
			func(s *corev1beta1.Seed) { s.Spec.Provider.Type = "other" }),
			input: Input{
				Strategy: MinimalDistance, Profile: &corev1beta1.CloudProfileSpec{
					SeedSelector: &corev1beta1.SeedSelector{ProviderTypes: []string{"*"}},
				},
			}},
		"too few zones for zone tolerance": {seed: seed("s", "eu-west-1"), shoot: shoot(func(s *corev1beta1.Shoot) {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{
				HighAvailability: &corev1beta1.HighAvailability{
					FailureTolerance: corev1beta1.FailureTolerance{Type: corev1beta1.FailureToleranceTypeZone},
				},
			}
		}), filter: "zones"},
		"an unsupported access restriction": {seed: seed("s", "eu-west-1"), shoot: shoot(func(s *corev1beta1.Shoot) {
			s.Spec.AccessRestrictions = []corev1beta1.AccessRestrictionWithOptions{
				{AccessRestriction: corev1beta1.AccessRestriction{Name: "eu-only"}},
			}
		}), filter: "access-restrictions"},
		"an emergency stop": {seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) {
			s.Annotations = map[string]string{corev1beta1.AnnotationEmergencyStopShootReconciliations: "true"}
		}), filter: "emergency-stop"},
		"a disabled emergency stop": {seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) {
			s.Annotations = map[string]string{corev1beta1.AnnotationEmergencyStopShootReconciliations: "false"}
		})},
		"pods that overlap the seed's": {seed: seed("s", "eu-west-1"), shoot: shoot(func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{Pods: new("10.244.128.0/24")}
		})},
		"pods that overlap the seed's services": {seed: seed("s", "eu-west-1"), shoot: shoot(func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{Pods: new("10.0.0.0/16")}
		}), filter: "networks"},
		"pods in a reserved range": {seed: seed("s", "eu-west-1"), shoot: shoot(func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{Pods: new("242.0.0.0/16")}
		}), filter: "networks"},
		"overlap through the seed's defaults, but no networking": {seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) {
			s.Spec.Networks.ShootDefaults = &corev1beta1.ShootNetworks{Services: new("10.0.0.0/16")}
		})},
		"overlap through the seed's defaults": {shoot: shoot(func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{}
		}), seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) {
			s.Spec.Networks.ShootDefaults = &corev1beta1.ShootNetworks{Services: new("10.0.0.0/16")}
		}), filter: "networks"},
		"an untolerated taint": {
			seed: seed("s", "eu-west-1", tainted(corev1beta1.SeedTaint{Key: "seed.gardener.cloud/protected"})), filter: "taints",
		},
		"another region":            {seed: seed("s", "eu-east-1"), filter: "region"},
		"another region by nearest": {seed: seed("s", "eu-east-1"), input: Input{Strategy: MinimalDistance}},
		"another region for a test": {
			seed:  seed("s", "eu-east-1"),
			shoot: shoot(func(s *corev1beta1.Shoot) { s.Spec.Purpose = new(corev1beta1.ShootPurposeTesting) }),
		},
		"a full seed": {seed: seed("s", "eu-west-1", func(s *corev1beta1.Seed) {
			s.Status.Allocatable = corev1.ResourceList{"shoots": resource.MustParse("0")}
		}), filter: "capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			in := tc.input
			in.Shoot = tc.shoot
			d := decide(in, tc.seed)
			if d.Verdicts[0].Filter != tc.filter {
				t.Errorf("filter = %q (%s), want %q", d.Verdicts[0].Filter, d.Verdicts[0].Reason, tc.filter)
			}
			if taken := d.Seed == "s"; taken != (tc.filter == "") || taken == (d.Error != "") {
				t.Errorf("seed = %q, error = %q", d.Seed, d.Error)
			}
		})
	}
}

func TestDecideChoosesFewestShoots(t *testing.T) {
	in := Input{Shoot: shoot(), Candidates: []Candidate{
		{seed("a", "eu-west-1"), 3}, {seed("b", "eu-west-1"), 1}, {seed("c", "eu-west-1"), 1}, {seed("d", "eu-east-1"), 0}}}
	want := Decision{Seed: "b", TiedSeeds: []string{"b", "c"}, Verdicts: []Verdict{
		{Seed: "a", Passed: true}, {Seed: "b", Passed: true}, {Seed: "c", Passed: true},
		{Seed: "d", Filter: "region", Reason: `it is in region "eu-east-1", the Shoot in "eu-west-1"`}}}
	if diff := cmp.Diff(want, Decide(in)); diff != "" {
		t.Errorf("Decide() mismatch (-want +got):\n%s", diff)
	}
}

func TestOperatorsDistancesWin(t *testing.T) {
	in := Input{Strategy: MinimalDistance, Distances: map[string]int{"eu-east-1": 50, "us-west-1": 10}}
	if got := decide(in, seed("near-by-name", "eu-east-1"),
		seed("near-by-config", "us-west-1")).Seed; got != "near-by-config" {
		t.Errorf("seed = %q, want the one that the operator calls nearest", got)
	}
	if got := decide(in, seed("own", "eu-west-1"), seed("near-by-config", "us-west-1")).Seed; got != "own" {
		t.Errorf("seed = %q, want the one in the Shoot's own region, whose distance is 0 unless given", got)
	}
	if got := decide(in, seed("far", "eu-east-1"), seed("unknown", "eu-west-2")).Seed; got != "far" {
		t.Errorf("seed = %q, want the only one with a distance", got)
	}
	if got := decide(in, seed("a", "ap-south-1"), seed("b", "eu-west-2")).Seed; got != "b" {
		t.Errorf("seed = %q, want the nearest by name if the operator gave no distance to any", got)
	}
	in.DistancesError = errors.New("bad YAML")
	if got := decide(in, seed("a", "eu-west-1")); got.Seed != "" || got.Error != "bad YAML" ||
		got.Verdicts[0].Filter != "distance" {
		t.Errorf("decision with unreadable distances: %+v", got)
	}
	in.Shoot = shoot(func(s *corev1beta1.Shoot) { s.Spec.Purpose = new(corev1beta1.ShootPurposeTesting) })
	if got := decide(in, seed("a", "eu-west-1")); got.Seed != "a" {
		t.Errorf("a test cluster must not need distances: %+v", got)
	}
}

func TestDecideIsStableAndSound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		in := Input{Shoot: shoot(), Strategy: []Strategy{SameRegion, MinimalDistance}[random.IntN(2)]}
		for i := range random.IntN(6) {
			s := seed(fmt.Sprintf("s%d", i), []string{"eu-west-1", "eu-east-1", "us-west-2"}[random.IntN(3)])
			if random.IntN(4) == 0 {
				s.Spec.Taints = []corev1beta1.SeedTaint{{Key: "x"}}
			}
			in.Candidates = append(in.Candidates, Candidate{s, random.IntN(3)})
		}
		d := Decide(in)
		if diff := cmp.Diff(d, Decide(in)); diff != "" {
			t.Fatalf("two decisions on the same input differ:\n%s", diff)
		}
		if (d.Seed == "") != (d.Error != "") || len(d.Verdicts) != len(in.Candidates) {
			t.Fatalf("incomplete decision %+v", d)
		}
		chosen := slices.IndexFunc(in.Candidates, func(c Candidate) bool { return c.Seed.Name == d.Seed })
		for i, c := range in.Candidates {
			if d.Verdicts[i].Passed && c.Shoots < in.Candidates[chosen].Shoots {
				t.Fatalf("%s passed and has fewer Shoots than the chosen %s", c.Seed.Name, d.Seed)
			}
		}
	}
}

func TestUsageCountsBothSeedsOfAMove(t *testing.T) {
	var u Usage
	s := shoot(func(s *corev1beta1.Shoot) { s.UID = types.UID("1") })
	u.Set(s)
	u.Assume(s, "a")
	if u.Of("a") != 1 {
		t.Errorf("an assumed Shoot is not counted")
	}
	s.Spec.SeedName, s.Status.SeedName = new("b"), new("a")
	u.Set(s)
	u.Set(s)
	if u.Of("a") != 1 || u.Of("b") != 1 {
		t.Errorf("a Shoot that moves from a to b counts %d and %d, want 1 and 1", u.Of("a"), u.Of("b"))
	}
	u.Remove(s)
	if u.Of("a") != 0 || u.Of("b") != 0 || len(u.shoots) != 0 {
		t.Errorf("a deleted Shoot is still counted")
	}
}

// The rules on zones: needs of the control plane, enforced and preferred zones of seeds.
func TestDecideByZones(t *testing.T) {
	mode := func(mode corev1beta1.ZoneSelectionMode, zones ...string) func(*corev1beta1.Seed) {
		return func(s *corev1beta1.Seed) {
			s.Spec.Provider.Zones = zones
			if mode != "" {
				selecting(mode)(s)
			}
		}
	}
	const none, prefer, enforce = corev1beta1.ZoneSelectionMode(""), corev1beta1.ZoneSelectionPrefer,
		corev1beta1.ZoneSelectionEnforce
	pools := func(zones ...string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) {
			for _, zone := range zones {
				s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, corev1beta1.Worker{Zones: []string{zone}})
			}
		}
	}
	tolerance := func(tolerance corev1beta1.FailureToleranceType, pinned ...string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) {
			s.Spec.ControlPlane = &corev1beta1.ControlPlane{Zones: pinned}
			if tolerance != "" {
				s.Spec.ControlPlane.HighAvailability = &corev1beta1.HighAvailability{
					FailureTolerance: corev1beta1.FailureTolerance{Type: tolerance},
				}
			}
		}
	}
	const zone = corev1beta1.FailureToleranceTypeZone
	for name, tc := range map[string]struct {
		shoot []func(*corev1beta1.Shoot)
		a, b  func(*corev1beta1.Seed)
		// want lists the remaining seeds, and the dropped ones with "filter" after them.
		want []string
	}{
		"three zones for zone tolerance": {
			[]func(*corev1beta1.Shoot){tolerance(zone)}, mode(none, "1", "2"), mode(none, "1", "2", "3"), []string{"zones", ""},
		},
		"all pinned zones": {
			[]func(*corev1beta1.Shoot){tolerance("", "1", "2")}, mode(none, "1"), mode(none, "1", "2"), []string{"zones", ""},
		},
		"pinned zones win over Enforce": {
			[]func(*corev1beta1.Shoot){tolerance("", "1"), pools("9")}, mode(enforce, "1"), mode(none, "2"),
			[]string{"", "zones"},
		},
		"pinned zones win over Prefer": {
			[]func(*corev1beta1.Shoot){tolerance("", "1"), pools("9")}, mode(prefer, "1"), mode(none, "1"), []string{"", ""},
		},
		"pinned zones do not lift the need of zones": {
			[]func(*corev1beta1.Shoot){tolerance(zone, "1", "2"), pools("9")}, mode(none, "1", "2"), mode(none, "1", "2", "3"),
			[]string{"zones", ""},
		},
		"Enforce by any shared zone": {
			[]func(*corev1beta1.Shoot){pools("9", "2")}, mode(enforce, "1", "2"), mode(enforce, "1"), []string{"", "zones"},
		},
		"Enforce on a seed without zones": {
			[]func(*corev1beta1.Shoot){pools("1")}, mode(enforce), mode(none), []string{"zones", ""},
		},
		"Enforce for a Shoot without zones": {nil, mode(enforce, "1"), mode(enforce), []string{"", ""}},
		"Enforce does not apply with zone tolerance": {
			[]func(*corev1beta1.Shoot){tolerance(zone), pools("9")}, mode(enforce, "1", "2", "3"), mode(none, "1", "2", "3"),
			[]string{"", ""},
		},
		"Enforce applies with node tolerance": {
			[]func(*corev1beta1.Shoot){tolerance("node"), pools("9")}, mode(enforce, "1", "2", "3"), mode(none, "1", "2", "3"),
			[]string{"zones", ""},
		},
		"Prefer drops if others are left": {
			[]func(*corev1beta1.Shoot){pools("9")}, mode(prefer, "1"), mode(none, "1"), []string{"zone-selection", ""},
		},
		"Prefer keeps a seed that shares a zone": {
			[]func(*corev1beta1.Shoot){pools("1")}, mode(prefer, "1"), mode(prefer, "2"), []string{"", "zone-selection"},
		},
		"Prefer never drops all": {
			[]func(*corev1beta1.Shoot){pools("9")}, mode(prefer, "1"), mode(prefer, "2"), []string{"", ""},
		},
		"Prefer does not apply without zones of pools": {nil, mode(prefer, "1"), mode(none, "2"), []string{"", ""}},
		"Prefer does not apply with zone tolerance": {
			[]func(*corev1beta1.Shoot){tolerance(zone), pools("9")}, mode(prefer, "1", "2", "3"), mode(none, "1", "2", "3"),
			[]string{"", ""},
		},
		"Prefer on a seed without zones gives way": {
			[]func(*corev1beta1.Shoot){pools("1")}, mode(prefer), mode(none), []string{"zone-selection", ""},
		},
		"Prefer counts before Enforce by the own verdict": {
			[]func(*corev1beta1.Shoot){pools("9")}, mode(prefer, "1"), mode(enforce, "1"), []string{"", "zones"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(Input{Shoot: shoot(tc.shoot...)}, seed("a", "eu-west-1", tc.a), seed("b", "eu-west-1", tc.b))
			if diff := cmp.Diff(tc.want, []string{d.Verdicts[0].Filter, d.Verdicts[1].Filter}); diff != "" {
				t.Errorf("filters mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideByDomain(t *testing.T) {
	serving := func(domains ...string) func(*corev1beta1.Seed) {
		return func(s *corev1beta1.Seed) {
			for _, d := range domains {
				s.Spec.DNS.Defaults = append(s.Spec.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: d})
			}
		}
	}
	for name, tc := range map[string]struct {
		domain string
		others []string // Default domains of seeds that are not candidates.
		seed   func(*corev1beta1.Seed)
		filter string
	}{
		"the one of Shoot and project": {"demo.dev.example.com", nil, serving("example.com"), ""},
		"by any of the seed's domains": {
			"demo.dev.example.com", nil, serving("dev.example.com", "example.com"), "",
		},
		"below a domain of another seed": {
			"demo.dev.example.com", []string{"example.com"}, serving("example.org"), "domain",
		},
		"below a domain of a seed that is no candidate": {
			"demo.dev.example.com", []string{"example.com"}, serving(), "domain",
		},
		"below a default domain, but of another Shoot":   {"other.dev.example.com", nil, serving("example.com"), "domain"},
		"below a default domain, but of another project": {"demo.prod.example.com", nil, serving("example.com"), "domain"},
		"the default domain itself is below none":        {"example.com", nil, serving("example.com"), ""},
		"a domain that only ends alike":                  {"demo.dev.myexample.com", nil, serving("example.com"), ""},
		"a domain of the user's own":                     {"demo.example.net", []string{"example.com"}, serving(), ""},
		"another spelling is another domain":             {"demo.dev.Example.com", nil, serving("example.com"), ""},
		"another spelling of the project does not serve": {"demo.Dev.example.com", nil, serving("example.com"), "domain"},
		"two defaults, of which another seed has the fit": {
			"demo.dev.example.com", []string{"example.com"}, serving("dev.example.com"), "domain",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Project: "dev", DefaultDomains: tc.others,
				Shoot: shoot(func(s *corev1beta1.Shoot) { s.Spec.DNS = &corev1beta1.DNS{Domain: &tc.domain} })}
			if got := decide(in, seed("s", "eu-west-1", tc.seed)).Verdicts[0]; got.Filter != tc.filter {
				t.Errorf("filter = %q (%s), want %q", got.Filter, got.Reason, tc.filter)
			}
		})
	}
}
