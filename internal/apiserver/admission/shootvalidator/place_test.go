package shootvalidator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

func selector(env string, types ...string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		s.Spec.SeedSelector = &corev1beta1.SeedSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": env}}, ProviderTypes: types,
		}
	}
}

func refused(t *testing.T, name string, got error, want string) {
	t.Helper()
	if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
		t.Errorf("%s: got %v, want %q", name, got, want)
	}
}

func TestSelectorOfAPlacedShoot(t *testing.T) {
	seed := seedNamed("x")
	for name, tc := range map[string]struct {
		request request
		want    string
	}{
		"before it is placed": {request{old: shootOn(""), shoot: shootOn("", selector("prod"))}, ""},
		"one that matches":    {request{old: shootOn("x"), shoot: shootOn("x", selector("test")), seed: seed}, ""},
		"other labels": {
			request{old: shootOn("x"), shoot: shootOn("x", selector("prod")), seed: seed}, "do not match",
		},
		"another provider": {
			request{old: shootOn("x"), shoot: shootOn("x", selector("test", "aws")), seed: seed}, "provider type",
		},
		"removal": {
			request{old: shootOn("x", selector("test")), shoot: shootOn("x"), seed: seed}, "cannot be removed",
		},
		"one that stays, but fails": {request{
			old: shootOn("x", selector("prod")), shoot: shootOn("x", selector("prod"), purpose), seed: seed,
		}, ""},
	} {
		refused(t, name, tc.request.selectorProblem(), tc.want)
	}
}

func TestRoomOnTheSeed(t *testing.T) {
	full := func(limit string) *corev1beta1.Seed {
		return seedNamed("x", func(s *corev1beta1.Seed) {
			s.Status.Allocatable = corev1.ResourceList{corev1beta1.SeedResourceShoots: resource.MustParse(limit)}
		})
	}
	for name, tc := range map[string]struct {
		request request
		want    string
	}{
		"no limit": {request{
			binding: true, old: shootOn(""), shoot: shootOn("x"), seed: seedNamed("x"), shootsOnSeed: 9,
		}, ""},
		"the last place": {request{
			binding: true, old: shootOn(""), shoot: shootOn("x"), seed: full("3"), shootsOnSeed: 2,
		}, ""},
		"no place": {request{
			binding: true, old: shootOn(""), shoot: shootOn("x"), seed: full("3"), shootsOnSeed: 3,
		}, "at most 3"},
		"no place on a move": {request{
			binding: true, old: shootOn("y"), shoot: shootOn("x"), seed: full("0"), oldSeed: seedNamed("y"),
		}, "at most 0"},
		"who is there stays": {request{
			old: shootOn("x"), shoot: shootOn("x", purpose), seed: full("0"), shootsOnSeed: 3,
		}, ""},
	} {
		refused(t, name, tc.request.seedProblem(), tc.want)
	}
	self := corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}}
	others := []corev1beta1.Shoot{self, {ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "s"}}}
	if got := shootsBesides(&self, others); got != 1 {
		t.Errorf("shootsBesides() = %d", got)
	}
}

func TestFewerTolerationsThanTaintsFail(t *testing.T) {
	v := ptr.To("v")
	binding := func(tolerations ...corev1beta1.Toleration) error {
		r := request{binding: true, old: shootOn(""), seed: seedNamed("x"), shoot: shootOn("x")}
		r.seed.Spec.Taints = []corev1beta1.SeedTaint{{Key: "a"}, {Key: "a", Value: v}}
		r.shoot.Spec.Tolerations = tolerations
		return r.seedProblem()
	}
	refused(t, "none", binding(), `taint "a", "a=v" of Seed "x"`)
	refused(t, "one for two taints", binding(corev1beta1.Toleration{Key: "a", Value: v}), `taint "a" of Seed "x"`)
	refused(t, "as many as taints", binding(corev1beta1.Toleration{Key: "a", Value: v},
		corev1beta1.Toleration{Key: "b"}), "")
}

func TestDefaultDomainMovesAlong(t *testing.T) {
	domain := func(name string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Spec.DNS = &corev1beta1.DNS{Domain: &name} }
	}
	with := func(seed string, domains ...string) *corev1beta1.Seed {
		return seedNamed(seed, func(s *corev1beta1.Seed) {
			for _, domain := range domains {
				s.Spec.DNS.Defaults = append(s.Spec.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: domain})
			}
		})
	}
	for name, tc := range map[string]struct {
		domain string
		seed   *corev1beta1.Seed
		want   string
	}{
		"offered by both":             {"a.dev.x.org", with("y", "x.org"), ""},
		"not offered by the new Seed": {"a.dev.x.org", with("y", "z.org"), "x.org"},
		"a domain of its own":         {"a.example.com", with("y"), ""},
	} {
		r := request{
			binding: true, old: shootOn("x", domain(tc.domain)), shoot: shootOn("y", domain(tc.domain)),
			oldSeed: with("x", "x.org"), seed: tc.seed,
		}
		refused(t, name, r.seedProblem(), tc.want)
	}
}

func TestTakenDomains(t *testing.T) {
	shoot := func(name, domain string) corev1beta1.Shoot {
		s := corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: name}}
		s.Spec.DNS = &corev1beta1.DNS{Domain: &domain}
		return s
	}
	for name, tc := range map[string]struct {
		neighbours []corev1beta1.Shoot
		want       field.ErrorType
	}{
		"nobody's": {nil, ""},
		"its own":  {[]corev1beta1.Shoot{shoot("s", "a.example.com")}, ""},
		"another's": {
			[]corev1beta1.Shoot{shoot("s", "a.example.com"), shoot("t", "a.example.com")}, field.ErrorTypeDuplicate,
		},
		"one above it": {[]corev1beta1.Shoot{shoot("t", "example.com")}, field.ErrorTypeForbidden},
		"one below it": {[]corev1beta1.Shoot{shoot("t", "x.a.example.com")}, field.ErrorTypeForbidden},
	} {
		r := request{shoot: ptr.To(shoot("s", "a.example.com")), neighbours: tc.neighbours}
		errs := r.domain()
		if len(errs) == 0 && tc.want == "" || len(errs) == 1 && errs[0].Type == tc.want &&
			errs[0].Field == "spec.dns.domain" {
			continue
		}
		t.Errorf("%s: %v", name, errs)
	}
}

func fieldsOf(errs field.ErrorList) []string {
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return fields
}

func TestZonesOfTheControlPlane(t *testing.T) {
	zones := func(zones ...string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Spec.ControlPlane = &corev1beta1.ControlPlane{Zones: zones} }
	}
	pinning := &corev1beta1.CloudProfileSpec{
		ControlPlane: &corev1beta1.CloudProfileControlPlane{AllowZonePinning: ptr.To(true)},
	}
	for name, tc := range map[string]struct {
		profile *corev1beta1.CloudProfileSpec
		request request
		want    []string
	}{
		"allowed": {pinning, request{shoot: shootOn("x", zones("a")), seed: seedNamed("x")}, nil},
		"chosen when it was allowed": {
			&corev1beta1.CloudProfileSpec{},
			request{old: shootOn("x", zones("a")), shoot: shootOn("x", zones("a")), seed: seedNamed("x")}, nil,
		},
		"not one of the Seed's": {
			pinning, request{shoot: shootOn("x", zones("d")), seed: seedNamed("x")}, []string{"spec.controlPlane.zones[0]"},
		},
		"not a zone of the Seed, bound": {
			pinning, request{old: shootOn("", zones("d")), shoot: shootOn("x", zones("d")), seed: seedNamed("x")},
			[]string{"spec.controlPlane.zones[0]"},
		},
	} {
		tc.request.profile = &hortusadmission.Profile{Spec: tc.profile}
		if diff := cmp.Diff(tc.want, fieldsOf(tc.request.controlPlaneZones())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestChangeOfTheProfile(t *testing.T) {
	offer := func(parent string, change func(*corev1beta1.CloudProfileSpec)) *hortusadmission.Profile {
		spec := &corev1beta1.CloudProfileSpec{
			MachineTypes: []corev1beta1.MachineType{{Name: "small"}}, VolumeTypes: []corev1beta1.VolumeType{{Name: "fast"}},
			MachineImages: []corev1beta1.MachineImage{{
				Name: "os", Versions: []corev1beta1.MachineImageVersion{
					{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
				},
			}},
		}
		change(spec)
		return &hortusadmission.Profile{Spec: spec, Parent: parent}
	}
	all := func(*corev1beta1.CloudProfileSpec) {}
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "NamespacedCloudProfile", Name: "b"}
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{{
		Name: "p", Volume: &corev1beta1.Volume{Type: ptr.To("fast")},
		Machine: corev1beta1.Machine{
			Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0.0")},
		},
	}}
	const pool = "spec.provider.workers[0]."
	for name, tc := range map[string]struct {
		profile *hortusadmission.Profile
		want    []string
	}{
		"of the same parent": {offer("a", all), nil},
		"of another parent":  {offer("c", all), []string{"spec.cloudProfile"}},
		"without the type": {
			offer("a", func(s *corev1beta1.CloudProfileSpec) { s.MachineTypes = nil }), []string{pool + "machine.type"},
		},
		"without the image": {
			offer("a", func(s *corev1beta1.CloudProfileSpec) { s.MachineImages[0].Versions = nil }),
			[]string{pool + "machine.image"},
		},
		"without the volume": {
			offer("a", func(s *corev1beta1.CloudProfileSpec) { s.VolumeTypes = nil }), []string{pool + "volume.type"},
		},
	} {
		r := request{shoot: shoot, old: shoot.DeepCopy(), profile: tc.profile, oldProfile: offer("a", all)}
		if diff := cmp.Diff(tc.want, fieldsOf(r.profileChange())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNetworksInUseOnAMove(t *testing.T) {
	shoot := func(seed string) *corev1beta1.Shoot {
		return shootOn(seed, func(s *corev1beta1.Shoot) {
			s.Spec.Networking = &corev1beta1.Networking{Services: ptr.To("100.64.0.0/16")}
			s.Status.Networking = &corev1beta1.NetworkingStatus{Nodes: []string{"10.9.0.0/16", "10.0.0.0/28"}}
		})
	}
	r := request{shoot: shoot("y"), old: shoot("x"), seed: seedNamed("y"), binding: true}
	if diff := cmp.Diff([]string{"spec.networking.nodes"}, fieldsOf(r.networks())); diff != "" {
		t.Errorf("networks() (-want +got):\n%s", diff)
	}
}
