package managedseed

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func newShoot(change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{}
	s.Namespace, s.Name = "garden", "apple"
	s.Spec.Region = "home"
	s.Spec.Provider = corev1beta1.Provider{
		Type: "local", Workers: []corev1beta1.Worker{{Zones: []string{"b", "a"}}, {Zones: []string{"b"}}},
	}
	s.Spec.Networking = &corev1beta1.Networking{
		Nodes: ptr.To("10.1.0.0/16"), Pods: ptr.To("10.2.0.0/16"), Services: ptr.To("10.3.0.0/16"),
	}
	s.Spec.DNS = &corev1beta1.DNS{Domain: ptr.To("apple.garden.x.org")}
	s.Spec.Kubernetes.VerticalPodAutoscaler = &corev1beta1.VerticalPodAutoscaler{Enabled: true}
	for _, c := range change {
		c(s)
	}
	return s
}

func TestUnfit(t *testing.T) {
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		change func(*corev1beta1.Shoot)
		fits   bool
	}{
		"all there":     {func(*corev1beta1.Shoot) {}, true},
		"no domain":     {func(s *corev1beta1.Shoot) { s.Spec.DNS = nil }, false},
		"no workers":    {func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers = nil }, false},
		"no autoscaler": {func(s *corev1beta1.Shoot) { s.Spec.Kubernetes.VerticalPodAutoscaler = nil }, false},
		"an ingress": {func(s *corev1beta1.Shoot) {
			s.Spec.Addons = &corev1beta1.Addons{NginxIngress: &corev1beta1.NginxIngress{Addon: corev1beta1.Addon{Enabled: true}}}
		}, false},
	} {
		errs := unfit(newShoot(tc.change))
		messages[name] = errs.ToAggregate()
		if (len(errs) == 0) != tc.fits {
			t.Errorf("%s: %v", name, errs)
		}
	}
	golden.Messages(t, messages)
}

func TestFillSeed(t *testing.T) {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "dns"}
	domains := []corev1beta1.SeedDNSProviderConfig{
		{Domain: "y.org", Type: "no"}, {Domain: "x.org", Type: "route", CredentialsRef: ref},
	}
	got := corev1beta1.SeedSpec{Backup: &corev1beta1.Backup{}}
	fillSeed(&got, newShoot(), domains)
	want := corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local", Region: "home", Zones: []string{"a", "b"}},
		Networks: corev1beta1.SeedNetworks{Nodes: ptr.To("10.1.0.0/16"), Pods: "10.2.0.0/16", Services: "10.3.0.0/16"},
		Ingress: &corev1beta1.Ingress{
			Domain: "ingress.apple.garden.x.org", Controller: corev1beta1.IngressController{Kind: "nginx"},
		},
		DNS:      corev1beta1.SeedDNS{Provider: &corev1beta1.SeedDNSProvider{Type: "route", CredentialsRef: &ref}},
		Backup:   &corev1beta1.Backup{Provider: "local"},
		Settings: &corev1beta1.SeedSettings{VerticalPodAutoscaler: &corev1beta1.SeedSettingVerticalPodAutoscaler{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fillSeed() (-want +got):\n%s", diff)
	}
	if errs := contradictions(&got, newShoot()); len(errs) > 0 {
		t.Errorf("the derived fields contradict the Shoot: %v", errs)
	}

	shoot := newShoot(func(s *corev1beta1.Shoot) {
		s.Spec.DNS.Providers = []corev1beta1.DNSProvider{{
			Type: ptr.To("own"), Primary: ptr.To(true),
			CredentialsRef: &autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "Secret", Name: "key"},
		}}
	})
	own := &corev1beta1.SeedDNSProvider{
		Type: "own", CredentialsRef: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "key",
		},
	}
	if diff := cmp.Diff(own, dnsProvider(shoot, domains)); diff != "" {
		t.Errorf("DNS provider of the Shoot (-want +got):\n%s", diff)
	}
}

func TestContradictions(t *testing.T) {
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		change func(*corev1beta1.SeedSpec)
		want   string
	}{
		"another type":   {func(s *corev1beta1.SeedSpec) { s.Provider.Type = "x" }, "provider.type"},
		"another region": {func(s *corev1beta1.SeedSpec) { s.Provider.Region = "x" }, "provider.region"},
		"another zone":   {func(s *corev1beta1.SeedSpec) { s.Provider.Zones = []string{"a", "x"} }, "provider.zones[1]"},
		"other nodes":    {func(s *corev1beta1.SeedSpec) { s.Networks.Nodes = ptr.To("10.9.0.0/16") }, "networks.nodes"},
		"other pods":     {func(s *corev1beta1.SeedSpec) { s.Networks.Pods = "10.9.0.0/16" }, "networks.pods"},
		"other services": {func(s *corev1beta1.SeedSpec) { s.Networks.Services = "10.9.0.0/16" }, "networks.services"},
		"another ingress": {
			func(s *corev1beta1.SeedSpec) { s.Ingress = &corev1beta1.Ingress{Domain: "x.org"} }, "ingress.domain",
		},
		"a second autoscaler": {func(s *corev1beta1.SeedSpec) {
			s.Settings = &corev1beta1.SeedSettings{
				VerticalPodAutoscaler: &corev1beta1.SeedSettingVerticalPodAutoscaler{Enabled: true},
			}
		}, "settings.verticalPodAutoscaler.enabled"},
	} {
		seed := corev1beta1.SeedSpec{}
		tc.change(&seed)
		fillSeed(&seed, newShoot(), nil)
		errs := contradictions(&seed, newShoot())
		messages[name] = errs.ToAggregate()
		if len(errs) != 1 || errs[0].Field != "spec.gardenlet.config.seedConfig.spec."+tc.want {
			t.Errorf("%s: %v", name, errs)
		}
	}
	golden.Messages(t, messages)
}

func TestTheRestOfTheConfigurationStays(t *testing.T) {
	c, err := readConfig(&runtime.RawExtension{
		Raw: []byte(`{"kind":"GardenletConfiguration","gardenClientConnection":{"qps":1},"seedConfig":{"metadata":{"labels":{"a":"b"}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.seed.Spec.Provider.Type = "local"
	raw, err := c.write()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind                   string
		GardenClientConnection map[string]int
		SeedConfig             corev1beta1.SeedTemplate
	}
	if err := json.Unmarshal(raw.Raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "GardenletConfiguration" || got.GardenClientConnection["qps"] != 1 ||
		got.SeedConfig.Labels["a"] != "b" || got.SeedConfig.Spec.Provider.Type != "local" {
		t.Errorf("configuration is %s", raw.Raw)
	}
	for _, written := range []string{"", `{}`, `{"seedConfig":null}`} {
		if c, err := readConfig(&runtime.RawExtension{Raw: []byte(written)}); c != nil || err != nil {
			t.Errorf("%q: %v, %v", written, c, err)
		}
	}
}
