package v1beta1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNetworkConflicts(t *testing.T) {
	text := func(cidr string) *string {
		if cidr == "" {
			return nil
		}
		return &cidr
	}
	four := SeedNetworks{Nodes: text("10.1.0.0/16"), Pods: "10.2.0.0/16", Services: "10.3.0.0/16"}
	six := SeedNetworks{Nodes: text("fd00:1::/48"), Pods: "fd00:2::/48", Services: "fd00:3::/48"}
	defaults := func(n SeedNetworks, pods, services string) SeedNetworks {
		n.ShootDefaults = &ShootNetworks{Pods: text(pods), Services: text(services)}
		return n
	}
	networking := func(nodes, pods, services string, families ...IPFamily) *Networking {
		return &Networking{Nodes: text(nodes), Pods: text(pods), Services: text(services), IPFamilies: families}
	}
	for name, tc := range map[string]struct {
		networking *Networking
		workerless bool
		inUse      *NetworkingStatus
		seed       SeedNetworks
		want       []string // Field and range.
	}{
		"no networking": {seed: defaults(four, "10.3.0.0/16", "10.3.0.0/16")},
		"disjoint": {
			networking: networking("10.8.0.0/16", "10.9.0.0/16", "10.10.0.0/16"), seed: four,
		},
		"IPv4 may overlap nodes and pods": {
			networking: networking("10.1.0.0/16", "10.2.0.0/17", "10.2.128.0/17"), seed: four,
		},
		"IPv4 must not overlap services": {
			networking: networking("10.3.0.0/24", "10.3.1.0/24", "10.0.0.0/8"), seed: four,
			want: []string{"nodes 10.3.0.0/24", "pods 10.3.1.0/24", "services 10.0.0.0/8"},
		},
		"IPv6 must not overlap nodes": {
			networking: networking("", "fd00:1:0:1::/64", ""), seed: six, want: []string{"pods fd00:1:0:1::/64"},
		},
		"IPv6 must not overlap pods": {
			networking: networking("fd00:2::/64", "", ""), seed: six, want: []string{"nodes fd00:2::/64"},
		},
		"IPv6 must not overlap services": {
			networking: networking("", "", "fd00::/16"), seed: SeedNetworks{Pods: "10.2.0.0/16", Services: "fd00:3::/48"},
			want: []string{"services fd00::/16"},
		},
		"IPv6 is apart from IPv4": {networking: networking("fd00:9::/48", "", ""), seed: four},
		"the first reserved range": {
			networking: networking("", "240.1.0.0/16", ""), seed: four, want: []string{"pods 240.1.0.0/16"},
		},
		"the last reserved range": {
			networking: networking("", "244.255.0.0/16", ""), seed: four, want: []string{"pods 244.255.0.0/16"},
		},
		"after the reserved ranges":  {networking: networking("", "245.0.0.0/16", ""), seed: four},
		"before the reserved ranges": {networking: networking("", "239.0.0.0/16", ""), seed: four},
		"the reserved range of IPv6": {
			networking: networking("", "", "fd8f:6d53:b97a:1::/112"), seed: six,
			want: []string{"services fd8f:6d53:b97a:1::/112"},
		},
		"around the reserved range of IPv6": {
			networking: networking("", "fd8f::/16", ""), seed: six, want: []string{"pods fd8f::/16"},
		},
		"defaults of the seed": {
			networking: networking("", "", ""), seed: defaults(four, "10.3.0.0/24", "10.3.1.0/24"),
			want: []string{"pods 10.3.0.0/24", "services 10.3.1.0/24"},
		},
		"own ranges instead of defaults": {
			networking: networking("", "10.9.0.0/16", "10.10.0.0/16"), seed: defaults(four, "10.3.0.0/24", "10.3.1.0/24"),
		},
		"no default pods without workers": {
			networking: networking("", "", ""), workerless: true, seed: defaults(four, "10.3.0.0/24", "10.3.1.0/24"),
			want: []string{"services 10.3.1.0/24"},
		},
		"defaults of another family do not count": {
			networking: networking("", "", "", IPFamilyIPv6), seed: defaults(four, "10.3.0.0/24", "10.3.1.0/24"),
		},
		"defaults of one of two families": {
			networking: networking("", "", "", IPFamilyIPv4, IPFamilyIPv6), seed: defaults(six, "fd00:3::/64", ""),
			want: []string{"pods fd00:3::/64"},
		},
		"ranges in use": {networking: networking("10.8.0.0/16", "", ""), seed: four,
			inUse: &NetworkingStatus{
				Nodes: []string{"10.8.0.0/16", "10.3.2.0/24"}, Pods: []string{"10.2.0.0/16"}, Services: []string{"10.3.0.0/24"},
			},
			want: []string{"nodes 10.3.2.0/24 in use", "services 10.3.0.0/24 in use"}},
		"what validation refuses": {networking: networking("10.3.0.0", "", ""), seed: four},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &Shoot{}
			shoot.Spec.Networking = tc.networking
			if !tc.workerless {
				shoot.Spec.Provider.Workers = []Worker{{}}
			}
			before := shoot.DeepCopy()
			var got []string
			for _, c := range NetworkConflicts(shoot, tc.inUse, &tc.seed) {
				text := c.Field + " " + c.Range
				if c.InUse {
					text += " in use"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("NetworkConflicts() mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, shoot); diff != "" {
				t.Errorf("the Shoot was changed:\n%s", diff)
			}
		})
	}
}

func TestEmergencyStop(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "1": true, "T": true, "false": false, "0": false, "": false, "yes": false,
	} {
		seed := &Seed{}
		seed.Annotations = map[string]string{AnnotationEmergencyStopShootReconciliations: value}
		if got := seed.EmergencyStop(); got != want {
			t.Errorf("EmergencyStop() with %q = %v, want %v", value, got, want)
		}
	}
	if (&Seed{}).EmergencyStop() {
		t.Error("EmergencyStop() without the annotation = true, want false")
	}
}
