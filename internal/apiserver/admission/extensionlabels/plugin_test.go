package extensionlabels

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestLabelsOfShoot(t *testing.T) {
	shoot := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
		Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{{
			Machine: corev1beta1.Machine{Image: &corev1beta1.ShootMachineImage{Name: "os"}},
			CRI:     &corev1beta1.CRI{ContainerRuntimes: []corev1beta1.ContainerRuntime{{Type: "gvisor"}}},
		}}},
		Networking: &corev1beta1.Networking{Type: ptr.To("bridge")},
		DNS: &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{
			{Type: ptr.To("cloud")}, {Type: ptr.To("unmanaged")},
		}},
		Extensions: []corev1beta1.Extension{{Type: "on"}, {Type: "off", Disabled: ptr.To(true)}},
	}}
	existing := map[string]string{"mine": "1", "provider.extensions.gardener.cloud/before": "true"}
	want := map[string]string{
		"mine": "1", "provider.extensions.gardener.cloud/local": "true",
		"networking.extensions.gardener.cloud/bridge": "true",
		"dnsrecord.extensions.gardener.cloud/cloud":   "true", "operatingsystemconfig.extensions.gardener.cloud/os": "true",
		"containerruntime.extensions.gardener.cloud/gvisor": "true", "extensions.extensions.gardener.cloud/on": "true",
	}
	if diff := cmp.Diff(want, ofShoot(shoot).replaceIn(existing)); diff != "" {
		t.Errorf("labels mismatch (-want +got):\n%s", diff)
	}
}

// TestLabelsDoNotDependOnWorkers: webhooks of a provider select its Shoots with and without machines.
func TestLabelsDoNotDependOnWorkers(t *testing.T) {
	shoot := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
		Provider:   corev1beta1.Provider{Type: "local"},
		Networking: &corev1beta1.Networking{Type: ptr.To("bridge")},
	}}
	want := map[string]string{
		"provider.extensions.gardener.cloud/local": "true", "networking.extensions.gardener.cloud/bridge": "true",
	}
	if diff := cmp.Diff(want, ofShoot(shoot).replaceIn(nil)); diff != "" {
		t.Errorf("labels mismatch (-want +got):\n%s", diff)
	}
}

func TestLabelsOfSeed(t *testing.T) {
	seed := &corev1beta1.Seed{Spec: corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: "local"},
		Backup:   &corev1beta1.Backup{Provider: "store"},
		DNS: corev1beta1.SeedDNS{
			Provider: &corev1beta1.SeedDNSProvider{Type: "a"}, Internal: &corev1beta1.SeedDNSProviderConfig{Type: "b"},
			Defaults: []corev1beta1.SeedDNSProviderConfig{{Type: "c"}},
		},
		Extensions: []corev1beta1.Extension{{Type: "on"}, {Type: "off", Disabled: ptr.To(true)}},
	}}
	existing := map[string]string{
		"dnsrecord.extensions.gardener.cloud/before": "true", "bastion.extensions.gardener.cloud/mine": "1",
	}
	want := map[string]string{
		"bastion.extensions.gardener.cloud/mine":   "1",
		"provider.extensions.gardener.cloud/local": "true", "provider.extensions.gardener.cloud/store": "true",
		"dnsrecord.extensions.gardener.cloud/a": "true", "dnsrecord.extensions.gardener.cloud/b": "true",
		"dnsrecord.extensions.gardener.cloud/c": "true", "extensions.extensions.gardener.cloud/on": "true",
	}
	if diff := cmp.Diff(want, ofSeed(seed).replaceIn(existing)); diff != "" {
		t.Errorf("labels mismatch (-want +got):\n%s", diff)
	}
}
