package steps

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/vpnseedserver"
	"hortus.dev/hortus/internal/flow"
)

// VPNSeedServer is the seed's end of the tunnel to nodes, pods and services, and the API server's only way to the outside.
var VPNSeedServer = &flow.Step[*Scope]{
	Name:   "vpn-seed-server",
	After:  []*flow.Step[*Scope]{Credentials},
	Ensure: ensureVPNSeedServer,
	Limit:  5 * time.Minute,
}

func ensureVPNSeedServer(ctx context.Context, s *Scope) (flow.Outcome, error) {
	server, err := s.Secrets.Get(nameVPNServer)
	if err != nil {
		return flow.Outcome{}, err
	}
	ca, err := s.Secrets.Bundle(nameCAVPN)
	if err != nil {
		return flow.Outcome{}, err
	}
	service, deployment := vpnseedserver.Render(vpnseedserver.Values{
		Namespace: s.Namespace, Image: s.Images.Hortus, Replicas: s.Replicas(), ServerSecret: server.Name, CASecret: ca.Name,
		Workers: !s.Workerless(), DeniedNetworks: deniedNetworks(s.SeedObject, s.Shoot, s.ServiceCIDR()),
	})
	return s.applyWorkload(ctx, []client.Object{service, deployment})
}

// deniedNetworks are the ranges that an API server may not reach as "outside", sorted: those of the seed, what the seed's
// operator has blocked, and the Shoot's own, which are reached through the tunnel or not at all.
func deniedNetworks(seed *corev1beta1.Seed, shoot *corev1beta1.Shoot, services string) []string {
	n := seed.Spec.Networks
	list := append([]string{n.Pods, n.Services, ptr.Deref(n.Nodes, ""), services}, n.BlockCIDRs...)
	if own := shoot.Spec.Networking; own != nil {
		list = append(list, ptr.Deref(own.Pods, ""), ptr.Deref(own.Nodes, ""))
	}
	if own := shoot.Status.Networking; own != nil { // Has more than the spec with two IP families.
		list = slices.Concat(list, own.Pods, own.Services, own.Nodes)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(cidr string) bool { return cidr == "" })
}
