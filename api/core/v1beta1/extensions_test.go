package v1beta1

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func texts(used []UsedExtension) []string {
	var all []string
	for _, u := range used {
		all = append(all, u.Kind+" "+u.Type+" "+u.Path.String())
	}
	return all
}

func TestUsedExtensionsOfShoot(t *testing.T) {
	yes, no := true, false
	cloud, unmanaged, bridge := "cloud", DNSUnmanaged, "bridge"
	common := ShootSpec{
		Provider:   Provider{Type: "local"},
		Networking: &Networking{Type: &bridge},
		Extensions: []Extension{{Type: "off", Disabled: &yes}, {Type: "on"}, {Type: "not-off", Disabled: &no}},
		DNS:        &DNS{Providers: []DNSProvider{{}, {Type: &unmanaged}, {Type: &cloud}}},
	}
	workers := common
	workers.Provider.Workers = []Worker{{}, {
		Machine: Machine{Image: &ShootMachineImage{Name: "os"}},
		CRI:     &CRI{ContainerRuntimes: []ContainerRuntime{{Type: "gvisor"}, {Type: "kata"}}},
	}}
	always := []string{
		"Extension on spec.extensions[1].type", "Extension not-off spec.extensions[2].type",
		"DNSRecord cloud spec.dns.providers[2].type",
	}
	for name, tc := range map[string]struct {
		spec ShootSpec
		want []string
	}{
		"nothing":         {},
		"without workers": {spec: common, want: always},
		"with workers": {spec: workers, want: slices.Concat([]string{
			"ControlPlane local spec.provider.type", "Infrastructure local spec.provider.type",
			"Worker local spec.provider.type", "Network bridge spec.networking.type",
			"OperatingSystemConfig os spec.provider.workers[1].machine.image.name",
			"ContainerRuntime gvisor spec.provider.workers[1].cri.containerRuntimes[0].type",
			"ContainerRuntime kata spec.provider.workers[1].cri.containerRuntimes[1].type",
		}, always)},
	} {
		t.Run(name, func(t *testing.T) {
			used := (&Shoot{Spec: tc.spec}).UsedExtensions()
			if diff := cmp.Diff(tc.want, texts(used)); diff != "" {
				t.Errorf("UsedExtensions() mismatch (-want +got):\n%s", diff)
			}
			for _, u := range used {
				if !slices.Contains(ExtensionKinds(), u.Kind) {
					t.Errorf("nobody may register an extension for %s", u.Kind)
				}
			}
		})
	}
}

func TestUsedExtensionsOfSeed(t *testing.T) {
	yes := true
	seed := &Seed{Spec: SeedSpec{
		Backup: &Backup{Provider: "store"},
		DNS: SeedDNS{
			Provider: &SeedDNSProvider{Type: "a"}, Internal: &SeedDNSProviderConfig{Type: "b"},
			Defaults: []SeedDNSProviderConfig{{Type: "c"}, {}, {Type: "c"}},
		},
		Extensions: []Extension{{Type: "off", Disabled: &yes}, {Type: "on"}},
	}}
	want := []string{
		"BackupBucket store spec.backup.provider", "BackupEntry store spec.backup.provider",
		"DNSRecord a spec.dns.provider.type", "DNSRecord b spec.dns.internal.type",
		"DNSRecord c spec.dns.defaults[0].type", "DNSRecord c spec.dns.defaults[2].type",
		"Extension on spec.extensions[1].type",
	}
	if diff := cmp.Diff(want, texts(seed.UsedExtensions())); diff != "" {
		t.Errorf("UsedExtensions() mismatch (-want +got):\n%s", diff)
	}
}

func TestLabelPrefixesOfKinds(t *testing.T) {
	want := map[string]string{
		"BackupBucket": "provider", "BackupEntry": "provider", "Bastion": "provider", "ControlPlane": "provider",
		"Infrastructure": "provider", "Worker": "provider",
		"ContainerRuntime": "containerruntime", "DNSRecord": "dnsrecord", "Extension": "extensions", "Network": "networking",
		"OperatingSystemConfig": "operatingsystemconfig", "SelfHostedShootExposure": "selfhostedshootexposure",
	}
	for _, kind := range ExtensionKinds() {
		if got := LabelPrefixOfKind(kind); got != want[kind]+".extensions.gardener.cloud/" {
			t.Errorf("LabelPrefixOfKind(%q) = %q, want %q", kind, got, want[kind]+".extensions.gardener.cloud/")
		}
	}
}
