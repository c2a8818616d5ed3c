package networkagent

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name, pods, ip string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if pods != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = pods, []string{pods}
	}
	if ip != "" {
		n.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: ip},
		}
	}
	return n
}

func TestDecide(t *testing.T) {
	route := func(dst, gw string) Route {
		return Route{Destination: netip.MustParsePrefix(dst), Gateway: netip.MustParseAddr(gw)}
	}
	for name, tc := range map[string]struct {
		nodes []corev1.Node
		want  State
	}{
		"a machine without Node has nothing": {
			want: State{},
		},
		"a Node without pod network only routes to others": {
			nodes: []corev1.Node{node("self", "", "10.250.0.2"), node("b", "100.96.1.0/24", "10.250.0.3")},
			want:  State{Routes: []Route{route("100.96.1.0/24", "10.250.0.3")}},
		},
		"there is no route to the machine itself": {
			nodes: []corev1.Node{node("self", "100.96.0.0/24", "10.250.0.2")},
			want:  State{Pods: netip.MustParsePrefix("100.96.0.0/24")},
		},
		"routes are sorted independently of the order of Nodes": {
			nodes: []corev1.Node{
				node("c", "100.96.2.0/24", "10.250.0.4"), node("self", "100.96.0.0/24", "10.250.0.2"),
				node("b", "100.96.1.0/24", "10.250.0.3"),
			},
			want: State{
				Pods:   netip.MustParsePrefix("100.96.0.0/24"),
				Routes: []Route{route("100.96.1.0/24", "10.250.0.3"), route("100.96.2.0/24", "10.250.0.4")},
			},
		},
		"a Node without address or pod network is omitted": {
			nodes: []corev1.Node{
				node("self", "100.96.0.0/24", "10.250.0.2"), node("b", "100.96.1.0/24", ""), node("c", "", "10.250.0.4"),
			},
			want: State{Pods: netip.MustParsePrefix("100.96.0.0/24")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.nodes, "self")
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
				cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("Decide() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCNIConfig(t *testing.T) {
	const want = `{
  "cniVersion": "1.0.0",
  "name": "hortus",
  "plugins": [
    {
      "bridge": "cni0",
      "hairpinMode": true,
      "ipMasq": false,
      "ipam": {
        "ranges": [
          [
            {
              "subnet": "100.96.0.0/24"
            }
          ]
        ],
        "type": "host-local"
      },
      "isDefaultGateway": true,
      "type": "bridge"
    },
    {
      "backend": "nftables",
      "capabilities": {
        "portMappings": true
      },
      "type": "portmap"
    },
    {
      "type": "hortus-policy"
    }
  ]
}
`
	if diff := cmp.Diff(want, string(CNIConfig(netip.MustParsePrefix("100.96.0.0/24")))); diff != "" {
		t.Errorf("CNIConfig() mismatch (-want +got):\n%s", diff)
	}
}
