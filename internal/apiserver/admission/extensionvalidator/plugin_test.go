package extensionvalidator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func TestMissing(t *testing.T) {
	messages := map[string]error{}
	resource := func(kind, name string) corev1beta1.ControllerResource {
		return corev1beta1.ControllerResource{Kind: kind, Type: name}
	}
	forClusters := func(name string, clusters ...corev1beta1.ClusterType) corev1beta1.ControllerResource {
		return corev1beta1.ControllerResource{Kind: "Extension", Type: name, ClusterCompatibility: clusters}
	}
	registrations := []corev1beta1.ControllerRegistration{
		{Spec: corev1beta1.ControllerRegistrationSpec{Resources: []corev1beta1.ControllerResource{
			resource("ControlPlane", "local"), resource("Infrastructure", "local"), resource("Worker", "local"),
			resource("Network", "bridge"),
			resource("OperatingSystemConfig", "os"), forClusters("dns", corev1beta1.ClusterTypeShoot),
			{Kind: "Extension", Type: "small", WorkerlessSupported: ptr.To(true),
				ClusterCompatibility: []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot}},
			{Kind: "Extension", Type: "helper", Primary: ptr.To(false)},
			forClusters("for-seeds", corev1beta1.ClusterTypeSeed),
			forClusters("for-both", corev1beta1.ClusterTypeSeed, corev1beta1.ClusterTypeShoot),
		}}},
		{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{resource("Network", "old")},
		}},
	}
	shoot := func(change func(*corev1beta1.ShootSpec)) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
			Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{{
				Machine: corev1beta1.Machine{Image: &corev1beta1.ShootMachineImage{Name: "os"}},
			}}},
			Networking: &corev1beta1.Networking{Type: ptr.To("bridge")},
			Extensions: []corev1beta1.Extension{{Type: "dns"}, {Type: "small"}, {Type: "none", Disabled: ptr.To(true)}},
		}}
		change(&s.Spec)
		return s
	}
	for name, tc := range map[string]struct {
		change func(*corev1beta1.ShootSpec)
		want   []string
	}{
		"all is registered": {func(*corev1beta1.ShootSpec) {}, nil},
		"another provider": {func(s *corev1beta1.ShootSpec) { s.Provider.Type = "x" },
			[]string{"spec.provider.type", "spec.provider.type", "spec.provider.type"}},
		"a network that goes": {
			func(s *corev1beta1.ShootSpec) { s.Networking.Type = ptr.To("old") }, []string{"spec.networking.type"},
		},
		"an unknown system": {
			func(s *corev1beta1.ShootSpec) { s.Provider.Workers[0].Machine.Image.Name = "x" },
			[]string{"spec.provider.workers[0].machine.image.name"},
		},
		"one that only helps": {
			func(s *corev1beta1.ShootSpec) { s.Extensions[0].Type = "helper" }, []string{"spec.extensions[0].type"},
		},
		"not without workers": {
			func(s *corev1beta1.ShootSpec) { s.Provider.Workers = nil }, []string{"spec.extensions[0].type"},
		},
		"one for seeds": {
			func(s *corev1beta1.ShootSpec) { s.Extensions[0].Type = "for-seeds" }, []string{"spec.extensions[0].type"},
		},
		"one for both": {func(s *corev1beta1.ShootSpec) { s.Extensions[0].Type = "for-both" }, nil},
		"unmanaged records": {func(s *corev1beta1.ShootSpec) {
			s.DNS = &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{{Type: ptr.To("unmanaged")}}}
		}, nil},
		"records that nobody makes": {func(s *corev1beta1.ShootSpec) {
			s.DNS = &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{{Type: ptr.To("x")}}}
		}, []string{"spec.dns.providers[0].type"}},
	} {
		var got []string
		errs := missing(ofShoot(shoot(tc.change)), offersOf(registrations))
		messages[name] = errs.ToAggregate()
		for _, err := range errs {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, want := range map[string][]string{
		"for-seeds": nil, "for-both": nil, "dns": {"spec.extensions[0].type"}, "x": {"spec.extensions[0].type"},
	} {
		seed := &corev1beta1.Seed{Spec: corev1beta1.SeedSpec{Extensions: []corev1beta1.Extension{{Type: name}}}}
		var got []string
		errs := missing(ofSeed(seed), offersOf(registrations))
		messages["a Seed with "+name] = errs.ToAggregate()
		for _, err := range errs {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a Seed with %s (-want +got):\n%s", name, diff)
		}
	}
	golden.Messages(t, messages)
}

func TestTypesOfASeed(t *testing.T) {
	seed := &corev1beta1.Seed{Spec: corev1beta1.SeedSpec{
		Backup: &corev1beta1.Backup{Provider: "store"},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "a"}, Internal: &corev1beta1.SeedDNSProviderConfig{Type: "b"},
			Defaults: []corev1beta1.SeedDNSProviderConfig{{Type: "c"}},
		},
		Extensions: []corev1beta1.Extension{{Type: "on"}, {Type: "off", Disabled: ptr.To(true)}},
	}}
	var got []string
	for _, err := range missing(usesOf(seed), nil) {
		got = append(got, err.Field+" "+err.BadValue.(string))
	}
	want := []string{
		"spec.backup.provider store", "spec.backup.provider store", "spec.dns.provider.type a", "spec.dns.internal.type b",
		"spec.dns.defaults[0].type c", "spec.extensions[0].type on",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bucket := &corev1beta1.BackupBucket{
		Spec: corev1beta1.BackupBucketSpec{Provider: corev1beta1.BackupBucketProvider{Type: "store"}},
	}
	if errs := missing(usesOf(bucket), map[key]offer{{"BackupBucket", "store"}: {}}); len(errs) > 0 {
		t.Errorf("a bucket of a registered type: %v", errs)
	}
}
