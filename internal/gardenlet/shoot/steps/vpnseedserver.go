package steps

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/vpnseedserver"
	"hortus.dev/hortus/internal/flow"
)

// VPNSeedServer is the seed's end of the tunnel to nodes, pods and services.
var VPNSeedServer = &flow.Step[*Scope]{
	Name:   "vpn-seed-server",
	After:  []*flow.Step[*Scope]{Credentials},
	SkipIf: workerless,
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
	})
	return s.applyWorkload(ctx, []client.Object{service, deployment})
}
