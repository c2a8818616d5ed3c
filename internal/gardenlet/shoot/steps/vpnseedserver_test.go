package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestNetworksOfTheTunnel(t *testing.T) {
	seed := &corev1beta1.Seed{}
	seed.Spec.Networks.Pods, seed.Spec.Networks.Services = "10.1.0.0/16", "10.2.0.0/16"
	full := seed.DeepCopy()
	full.Spec.Networks.Nodes, full.Spec.Networks.BlockCIDRs = ptr.To("10.0.0.0/24"),
		[]string{"192.168.0.0/16", "10.1.0.0/16"}
	shoot := &corev1beta1.Shoot{}
	own := shoot.DeepCopy()
	own.Spec.Networking = &corev1beta1.Networking{
		Pods: ptr.To("100.96.0.0/11"), Nodes: ptr.To("10.250.0.0/16"), Services: ptr.To("100.64.0.0/13"),
	}
	two := own.DeepCopy()
	two.Status.Networking = &corev1beta1.NetworkingStatus{
		Pods: []string{"100.96.0.0/11", "fd01::/48"}, Services: []string{"fd02::/108"},
		Nodes: []string{"10.250.0.0/16", "fd03::/64"},
	}
	for name, tc := range map[string]struct {
		got, want []string
	}{
		"the seed": {deniedNetworks(seed), []string{"10.1.0.0/16", "10.2.0.0/16"}},
		"what the seed blocks": {
			deniedNetworks(full), []string{"10.0.0.0/24", "10.1.0.0/16", "10.2.0.0/16", "192.168.0.0/16"},
		},
		"a Shoot without workers": {ownNetworks(shoot, "100.64.0.0/16"), []string{"100.64.0.0/16"}},
		"a Shoot": {
			ownNetworks(own, "100.64.0.0/13"), []string{"10.250.0.0/16", "100.64.0.0/13", "100.96.0.0/11"},
		},
		"a Shoot with two families of IPs": {
			ownNetworks(two, "100.64.0.0/13"),
			[]string{"10.250.0.0/16", "100.64.0.0/13", "100.96.0.0/11", "fd01::/48", "fd02::/108", "fd03::/64"},
		},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
