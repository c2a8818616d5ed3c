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

// VPNSeedServer is the seed's end of the tunnel to nodes, pods and Services, and the API server's only way out.
var VPNSeedServer = &flow.Step[*Scope]{
	Name:   "vpn-seed-server",
	After:  []*flow.Step[*Scope]{Credentials},
	Ensure: use3(ensureVPNSeedServer),
	Limit:  5 * time.Minute,
}

func ensureVPNSeedServer(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	server, err := secrets.Get(nameVPNServer)
	if err != nil {
		return flow.Outcome{}, err
	}
	ca, err := secrets.Bundle(nameCAVPN)
	if err != nil {
		return flow.Outcome{}, err
	}
	service, deployment := vpnseedserver.Render(vpnseedserver.Values{
		Namespace: s.Namespace, Image: s.Images.Hortus, Replicas: s.Replicas(), ServerSecret: server.Name, CASecret: ca.Name,
		Workers: !s.Workerless(), OwnNetworks: ownNetworks(s.Shoot, s.ServiceCIDR()),
		DeniedNetworks: deniedNetworks(s.SeedObject),
	})
	return applyWorkload(ctx, s, seed, []client.Object{service, deployment})
}

// deniedNetworks are the ranges of the seed, and what its operator has blocked, sorted: no API server of a Shoot has
// business there.
func deniedNetworks(seed *corev1beta1.Seed) []string {
	n := seed.Spec.Networks
	return distinct(append([]string{n.Pods, n.Services, ptr.Deref(n.Nodes, "")}, n.BlockCIDRs...))
}

// ownNetworks are the ranges of the Shoot, sorted.
func ownNetworks(shoot *corev1beta1.Shoot, services string) []string {
	list := []string{services}
	if own := shoot.Spec.Networking; own != nil {
		list = append(list, ptr.Deref(own.Pods, ""), ptr.Deref(own.Nodes, ""))
	}
	if own := shoot.Status.Networking; own != nil { // With two IP families it has more than the spec.
		list = slices.Concat(list, own.Pods, own.Services, own.Nodes)
	}
	return distinct(list)
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(s string) bool { return s == "" })
}
