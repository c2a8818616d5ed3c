package networkpolicy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"hortus.dev/hortus/internal/networkpolicy"
)

func TestToGarden(t *testing.T) {
	tcp := func(port int32) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(port))}}
	}
	block := func(cidr string, except ...string) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}}
	}
	for name, tc := range map[string]struct {
		server string
		want   networkingv1.NetworkPolicyEgressRule
		dns    bool
		err    bool
	}{
		"an address": {
			server: "https://10.1.2.3:6443",
			want:   networkingv1.NetworkPolicyEgressRule{To: block("10.1.2.3/32"), Ports: tcp(6443)},
		},
		"an IPv6 address without a port": {
			server: "https://[2001:db8::1]",
			want:   networkingv1.NetworkPolicyEgressRule{To: block("2001:db8::1/128"), Ports: tcp(443)},
		},
		"a name": {
			server: "https://garden.example.com", dns: true,
			want: networkingv1.NetworkPolicyEgressRule{To: block("0.0.0.0/0", "169.254.0.0/16"), Ports: tcp(443)},
		},
		"no URL": {server: "https://garden:port", err: true},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := networkpolicy.ToGarden("extension-x", tc.server)
			if tc.err {
				if err == nil {
					t.Errorf("the policy is %+v", policy)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, policy.Spec.Egress[0]); diff != "" {
				t.Errorf("rule (-want +got):\n%s", diff)
			}
			if got := len(policy.Spec.Egress) == 2; got != tc.dns || len(policy.Spec.Egress) > 2 {
				t.Errorf("the rules are %+v", policy.Spec.Egress)
			}
			if diff := cmp.Diff(map[string]string{"networking.hortus.dev/to-garden": "allowed"},
				policy.Spec.PodSelector.MatchLabels); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if len(policy.Labels) > 0 {
				t.Errorf("the resource-manager would delete a policy with the labels %v", policy.Labels)
			}
		})
	}
}
