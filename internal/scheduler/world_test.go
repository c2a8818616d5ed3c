package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
