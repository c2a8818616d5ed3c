package scheduler_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/scheduler"
)

// chance generates the cases of the judge.
type chance struct {
	*rand.Rand
	// theme of the case: types, zones, networks or distance. Other rules rarely drop seeds then. Empty: no theme.
	theme string
}

func newChance(seed uint64, i int) chance {
	c := chance{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
	c.theme = oneOf(c, "", "", "types", "zones", "networks", "distance")
	return c
}

func (c chance) of(percent int) bool { return c.IntN(100) < percent }

// in is true with one of two probabilities: that of cases with the theme, or that of others.
func (c chance) in(theme string, percent, otherwise int) bool {
	if c.theme == theme {
		return c.of(percent)
	}
	return c.of(otherwise)
}

// trouble is rare in cases with a theme.
func (c chance) trouble(percent int) bool { return c.in("", percent, percent/5) }

func oneOf[T any](c chance, values ...T) T { return values[c.IntN(len(values))] }

func (c chance) someOf(values ...string) []string {
	return slices.DeleteFunc(values, func(string) bool { return c.of(50) })
}

// atLeastOneOf returns them in a random order.
func (c chance) atLeastOneOf(values ...string) []string {
	c.Shuffle(len(values), func(i, k int) { values[i], values[k] = values[k], values[i] })
	return values[:1+c.IntN(len(values))]
}

const (
	home      = "eu-west-1"
	namespace = "garden-of-dev" // Of the project dev: not derived from its name.
)

func (c chance) region() string {
	if c.of(55) {
		return home
	}
	return oneOf(c, "eu-central-1", "eu-west-2", "us-east-1", "asia")
}

func (c chance) selector() *corev1beta1.SeedSelector {
	s := &corev1beta1.SeedSelector{}
	for _, key := range c.someOf("env", "tier") {
		s.MatchLabels = map[string]string{key: oneOf(c, "x", "y")}
	}
	for _, key := range c.someOf("env", "tier") {
		e := metav1.LabelSelectorRequirement{
			Key: key, Operator: oneOf(c, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		}
		if c.of(70) {
			e.Operator, e.Values = oneOf(c, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), []string{oneOf(c, "x", "y")}
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s
}

// taints are distinct, as validation wants them.
func (c chance) taints() (taints []corev1beta1.SeedTaint) {
	words := oneOf(c, []string{"a", "a=1"}, []string{"b", "b=1"}, c.atLeastOneOf("a", "a=1", "b", "b=1", "b=2"),
		c.atLeastOneOf("a", "b"))
	for _, word := range words[:min(len(words), 1+c.IntN(4))] {
		taints = append(taints, corev1beta1.SeedTaint(toleration(word)))
	}
	return taints
}

func toleration(word string) corev1beta1.Toleration {
	key, value, valued := strings.Cut(word, "=")
	t := corev1beta1.Toleration{Key: key}
	if valued {
		t.Value = &value
	}
	return t
}

func (c chance) seed(name string) corev1beta1.Seed {
	s := corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, key := range c.someOf("env", "tier") {
		s.Labels[key] = oneOf(c, "x", "x", "y")
	}
	s.Spec.Provider = corev1beta1.SeedProvider{
		Type: "local", Region: c.region(), Zones: []string{"1", "2", "3", "4"}[:oneOf(c, 0, 1, 3, 3, 3, 4)],
	}
	if c.in("types", 60, 10) {
		s.Spec.Provider.Type = "other"
	}
	settings := &corev1beta1.SeedSettings{Scheduling: &corev1beta1.SeedSettingScheduling{Visible: !c.trouble(4)}}
	if c.in("zones", 90, 30) {
		settings.ZoneSelection = &corev1beta1.SeedSettingZoneSelection{
			Mode: oneOf(c, corev1beta1.ZoneSelectionPrefer, corev1beta1.ZoneSelectionEnforce),
		}
	}
	if s.Spec.Settings = settings; c.of(20) {
		s.Spec.Settings = nil
	}
	s.Spec.Networks = corev1beta1.SeedNetworks{Nodes: new("10.1.0.0/16"), Pods: "10.2.0.0/16", Services: "10.3.0.0/16"}
	if c.of(25) {
		s.Spec.Networks = corev1beta1.SeedNetworks{Pods: "fd00:2::/48", Services: "fd00:3::/108"}
		if c.of(50) {
			s.Spec.Networks.Nodes = new("fd00:1::/48")
		}
	}
	if c.of(30) {
		s.Spec.Networks.ShootDefaults = &corev1beta1.ShootNetworks{
			Pods:     new(oneOf(c, "10.2.128.0/17", "10.3.0.0/20", "fd00:2:0:1::/64")),
			Services: new(oneOf(c, "10.6.0.0/16", "10.3.128.0/17", "fd00:3::/112"))}
	}
	if c.of(22) {
		s.Spec.Taints = c.taints()
	}
	for _, restriction := range c.someOf("eu-only", "secret") {
		s.Spec.AccessRestrictions = append(s.Spec.AccessRestrictions, corev1beta1.AccessRestriction{Name: restriction})
	}
	for _, domain := range c.someOf("example.com", "dev.example.com", "example.org") {
		s.Spec.DNS.Defaults = append(s.Spec.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: domain})
	}
	if c.trouble(25) {
		s.Annotations = map[string]string{stopAnnotation: oneOf(c, "true", "True", "1", "false", "0", "", "yes", "on")}
	}
	if s.Status.LastOperation = (&corev1beta1.LastOperation{}); c.trouble(4) {
		s.Status.LastOperation = nil
	}
	if c.trouble(4) {
		s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	status := corev1beta1.ConditionTrue
	if c.trouble(5) {
		status = oneOf(c, corev1beta1.ConditionFalse, corev1beta1.ConditionUnknown, corev1beta1.ConditionProgressing)
	}
	if !c.trouble(2) {
		s.Status.Conditions = append(s.Status.Conditions, corev1beta1.Condition{Type: "GardenletReady", Status: status})
	}
	if c.of(25) {
		s.Spec.Backup = &corev1beta1.Backup{}
		status := corev1beta1.ConditionTrue
		if c.trouble(20) {
			status = oneOf(c, corev1beta1.ConditionFalse, corev1beta1.ConditionProgressing)
		}
		if !c.trouble(10) {
			s.Status.Conditions = append(s.Status.Conditions, corev1beta1.Condition{Type: "BackupBucketsReady", Status: status})
		}
	}
	if c.of(45) {
		s.Status.Allocatable = corev1.ResourceList{"shoots": resource.MustParse(oneOf(c, "0", "1", "2", "3", "100"))}
	}
	return s
}

// shoot waits for a seed. It is valid.
func (c chance) shoot() corev1beta1.Shoot {
	s := corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: namespace}}
	s.Spec.Region, s.Spec.Provider.Type = home, "local"
	s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "profile"}
	if c.of(20) {
		s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "NamespacedCloudProfile", Name: "own"}
	}
	if c.in("types", 40, 20) {
		s.Spec.Purpose = new(oneOf(c, corev1beta1.ShootPurposeTesting, corev1beta1.ShootPurposeTesting,
			corev1beta1.ShootPurposeProduction))
	}
	if c.trouble(30) {
		s.Spec.SeedSelector = c.selector()
	}
	for _, word := range oneOf(c, nil, []string{"a=1"}, []string{"b=1"}, c.someOf("a", "b=1", "c"),
		c.someOf("a=1", "b=2", "c"), c.someOf("a", "a=1", "b=1", "b=2")) {
		s.Spec.Tolerations = append(s.Spec.Tolerations, toleration(word))
	}
	tolerance := oneOf(c, "", "", "", "", "", "node", "zone")
	if tolerance != "" {
		s.Spec.ControlPlane = &corev1beta1.ControlPlane{
			HighAvailability: &corev1beta1.HighAvailability{
				FailureTolerance: corev1beta1.FailureTolerance{Type: corev1beta1.FailureToleranceType(tolerance)},
			},
		}
	}
	if c.in("zones", 75, 12) {
		s.Spec.ControlPlane = cmp.Or(s.Spec.ControlPlane, &corev1beta1.ControlPlane{})
		s.Spec.ControlPlane.Zones = []string{oneOf(c, "1", "1", "1", "2", "9")}
		if tolerance == "zone" {
			s.Spec.ControlPlane.Zones = oneOf(c, []string{"1", "2", "3"}, []string{"4", "2", "1"})
		}
	}
	for range c.IntN(3) {
		zones := oneOf(c, nil, []string{"1"}, []string{"2", "3"}, []string{"7"}, []string{"8", "9"})
		if c.in("zones", 60, 0) {
			zones = []string{"7"} // Which seeds do not have.
		}
		s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, corev1beta1.Worker{Zones: zones})
	}
	if c.trouble(30) {
		for _, restriction := range c.atLeastOneOf("eu-only", "secret") {
			s.Spec.AccessRestrictions = append(s.Spec.AccessRestrictions,
				corev1beta1.AccessRestrictionWithOptions{AccessRestriction: corev1beta1.AccessRestriction{Name: restriction}})
		}
	}
	if c.trouble(50) {
		s.Spec.DNS = &corev1beta1.DNS{Domain: new(oneOf(c, "demo.dev.example.com", "demo.dev.example.org",
			"demo.dev.dev.example.com", "demo.Dev.example.com",
			"other.dev.example.com", "demo.example.net", "example.com", "notexample.org"))}
	}
	if c.in("networks", 90, 40) {
		s.Spec.Networking = c.networking()
		if c.of(25) {
			s.Status.Networking = &corev1beta1.NetworkingStatus{Nodes: []string{"10.4.0.0/16"},
				Pods:     []string{oneOf(c, "10.5.0.0/16", "10.3.64.0/18")},
				Services: []string{oneOf(c, "10.6.0.0/16", "fd00:2:0:2::/64")}}
		}
	}
	return s
}

// networking has some disjoint ranges.
func (c chance) networking() *corev1beta1.Networking {
	n := &corev1beta1.Networking{
		IPFamilies: oneOf(c, nil, []corev1beta1.IPFamily{"IPv4"}, []corev1beta1.IPFamily{"IPv6"},
			[]corev1beta1.IPFamily{"IPv4", "IPv6"}),
	}
	if c.of(50) {
		n.Nodes = new(oneOf(c, "10.4.0.0/16", "10.1.0.0/17", "10.3.0.0/19", "fd00:4::/48", "fd00:1:0:4::/64"))
	}
	if c.of(50) {
		n.Pods = new(oneOf(c, "10.5.0.0/16", "10.2.0.0/16", "10.3.32.0/19", "244.1.0.0/16", "fd00:5::/48", "fd00:2:0:5::/64"))
	}
	if c.of(50) {
		n.Services = new(oneOf(c, "10.6.0.0/16", "10.3.64.0/19", "241.0.0.0/16", "fd00:6::/108", "fd00:3::/112",
			"fd8f:6d53:b97a:1::/112"))
	}
	return n
}

// garden is one case: some seeds, Shoots that have one, and one that waits.
func (c chance) garden() (*fleet.Fleet, scheduler.Strategy) {
	profile := corev1beta1.CloudProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "profile"}, Spec: corev1beta1.CloudProfileSpec{Type: "local"},
	}
	for _, region := range append(c.someOf("eu-central-1", "us-east-1"), home) {
		profile.Spec.Regions = append(profile.Spec.Regions, corev1beta1.Region{Name: region,
			Zones: []corev1beta1.AvailabilityZone{{Name: "1"}, {Name: oneOf(c, "3", "7")}}})
	}
	if c.of(20) {
		profile.Spec.Regions = nil
	}
	if c.in("types", 80, 25) {
		profile.Spec.SeedSelector = &corev1beta1.SeedSelector{}
		if c.trouble(60) {
			profile.Spec.SeedSelector = c.selector()
		}
		profile.Spec.SeedSelector.ProviderTypes = oneOf(c, nil, []string{"other"}, []string{"*"}, []string{"*"},
			[]string{"*"}, []string{"local", "other"}, []string{"local", "other"}, []string{"local", "other"})
	}
	if c.of(50) {
		profile.Spec.ControlPlane = &corev1beta1.CloudProfileControlPlane{AllowZonePinning: new(true)}
	}
	f := &fleet.Fleet{
		CloudProfiles: []corev1beta1.CloudProfile{profile},
		NamespacedCloudProfiles: []corev1beta1.NamespacedCloudProfile{{
			ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: namespace},
			Spec: corev1beta1.NamespacedCloudProfileSpec{Parent: corev1beta1.CloudProfileReference{
				Kind: "CloudProfile", Name: "profile",
			}},
		}},
		Projects: []corev1beta1.Project{
			{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1beta1.ProjectSpec{Namespace: new("garden-dev")}},
			{ObjectMeta: metav1.ObjectMeta{Name: "dev"}, Spec: corev1beta1.ProjectSpec{Namespace: new(namespace)}},
		},
		Shoots: []corev1beta1.Shoot{c.shoot()},
	}
	f.Shoots[0].UID = "waiting" // It has passed admission.
	for i := range 1 + c.IntN(8) {
		f.Seeds = append(f.Seeds, c.seed(fmt.Sprintf("s%d", i)))
	}
	for i := range c.IntN(10) {
		s := corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%d", i), Namespace: namespace}}
		s.Spec.SeedName = new(oneOf(c, f.Seeds...).Name)
		if s.Status.SeedName = s.Spec.SeedName; c.of(60) {
			s.Status.SeedName = new(oneOf(c, f.Seeds...).Name)
		}
		f.Shoots = append(f.Shoots, s)
	}
	c.Shuffle(len(f.Seeds), func(i, k int) { f.Seeds[i], f.Seeds[k] = f.Seeds[k], f.Seeds[i] })
	if c.in("distance", 0, 45) {
		return f, scheduler.SameRegion
	}
	for _, name := range append(c.someOf("first", "second"), "third") {
		f.ConfigMaps = append(f.ConfigMaps, c.regionConfig(name))
	}
	return f, scheduler.MinimalDistance
}

func (c chance) regionConfig(name string) corev1.ConfigMap {
	config := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "garden", Labels: map[string]string{"scheduling.gardener.cloud/purpose": "region-config"},
		Annotations: map[string]string{
			"scheduling.gardener.cloud/cloudprofiles": oneOf(c, "profile", "profile", "profile", "another,profile", "another",
				"profiles"),
		},
	}, Data: map[string]string{"asia": "eu-west-1: 1"}}
	distances := "{}\n"
	for i, region := range c.someOf(home, "eu-central-1", "eu-west-2", "us-east-1", "asia") {
		if i == 0 {
			distances = ""
		}
		distances += fmt.Sprintf("%s: %d\n", region, c.IntN(3)*10)
	}
	switch c.IntN(14) {
	case 0:
		config.Namespace = "other"
	case 1:
		config.Labels = nil
	case 2:
		return config // Without an entry for the region.
	case 3:
		distances = ""
	case 4:
		distances = "eu-west-1: near"
	}
	config.Data[home] = distances
	return config
}
