package scheduler

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

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
