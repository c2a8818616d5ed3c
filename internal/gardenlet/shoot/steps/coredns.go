package steps

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/coredns"
	"hortus.dev/hortus/internal/flow"
)

// clusterDNSIndex is the place of the DNS server in the range of services; by custom it is the tenth address.
const clusterDNSIndex = 10

// CoreDNS resolves names in the Shoot.
var CoreDNS = &flow.Step[*Scope]{
	Name:   "coredns",
	After:  []*flow.Step[*Scope]{ShootNamespaces},
	SkipIf: workerlessOrAsleep,
	Ensure: shootResource(coredns.ResourceName, renderCoreDNS),
}

func renderCoreDNS(_ context.Context, s *Scope) ([]client.Object, error) {
	ip, err := serviceIP(s.ServiceCIDR(), clusterDNSIndex)
	if err != nil {
		return nil, err
	}
	v := coredns.Values{Image: s.Images.CoreDNS, Placement: component.SystemComponents(s.Shoot.Spec.Provider.Workers), ClusterIP: ip, Replicas: 2}
	if maximumNodes(s) < 2 {
		v.Replicas = 1 // A second one on the same node would help nobody.
	}
	if c := s.Shoot.Spec.SystemComponents; c != nil && c.CoreDNS != nil && c.CoreDNS.Rewriting != nil {
		v.CommonSuffixes = c.CoreDNS.Rewriting.CommonSuffixes
	}
	return coredns.Render(v), nil
}

// maximumNodes is how many nodes with components of the system the Shoot may have.
func maximumNodes(s *Scope) int32 {
	var n int32
	for i := range s.Shoot.Spec.Provider.Workers {
		if w := &s.Shoot.Spec.Provider.Workers[i]; component.AllowsSystemComponents(w) {
			n += w.Maximum
		}
	}
	return n
}
