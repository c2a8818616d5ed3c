package policy

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const (
	manyNamespaces = 20
	manyApps       = 10 // Per namespace.
	manyKinds      = manyNamespaces * manyApps
)

// manyPods returns a cluster: pods in 20 namespaces with 10 apps each, some of them on the own node, and policies, each
// for one app: from two apps and a block to a named port and two numbers, and to everything but the metadata service.
func manyPods(all, local, policies int) Observed {
	o := Observed{Node: self, Refused: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}}
	for n := range manyNamespaces {
		o.Namespaces = append(o.Namespaces, newNamespace(fmt.Sprintf("n%d", n), fmt.Sprintf("team=t%d", n%5)))
	}
	app := func(i int) string { return fmt.Sprintf("app=a%d", i%manyApps) }
	for i := range all {
		p := newPod(fmt.Sprintf("n%d/p%d", i/manyApps%manyNamespaces, i), app(i)+",pod-template-hash=5d8f7b",
			fmt.Sprintf("10.1.%d.%d", i/200, i%200+2),
			withPort("http", corev1.ProtocolTCP, 8080))
		if i >= local {
			p.Spec.NodeName = "node-2"
		}
		o.Pods = append(o.Pods, p)
	}
	for i := range policies {
		o.Policies = append(o.Policies, newPolicy(fmt.Sprintf("n%d/p%d", i/manyApps%manyNamespaces, i), app(i), bothTypes,
			from(
				peers{
					pods(app(i + 1)), podsIn(fmt.Sprintf("team=t%d", i%5), app(i+2)),
					block("192.168.0.0/16", fmt.Sprintf("192.168.%d.0/24", i%250)),
				},
				ports{
					namedPort(corev1.ProtocolTCP, "http"), port(corev1.ProtocolTCP, 9090), portRange(corev1.ProtocolUDP, 5000, 5100),
				}),
			to(peers{block("0.0.0.0/0", "169.254.169.254/32")}, nil)))
	}
	return o
}

func BenchmarkDecide(b *testing.B) {
	for _, local := range []int{110, 1000} {
		b.Run(fmt.Sprintf("local-%d", local), func(b *testing.B) {
			o := manyPods(1000, local, 200)
			b.ReportAllocs()
			for b.Loop() {
				Decide(o)
			}
		})
	}
}
