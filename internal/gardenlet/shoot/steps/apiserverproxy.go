package steps

import (
	"context"
	"fmt"

	"hortus.dev/hortus/internal/component/apiserverproxy"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/flow"
)

// APIServerProxy listens on every node at the address that the API server advertises, and forwards connections to it.
var APIServerProxy = &flow.Step[*Scope]{
	Name:   "apiserver-proxy",
	After:  []*flow.Step[*Scope]{ShootNamespaces, KubeAPIServerService, OperatingSystemConfig},
	SkipIf: when(workerless, asleep),
	Ensure: use2(ensureAPIServerProxy),
}

func ensureAPIServerProxy(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	address, err := proxyAddress(ctx, s, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	objects := apiserverproxy.Render(apiserverproxy.Values{
		Image: s.Images.Hortus, Address: address, Gateway: fmt.Sprintf("%s:%d", s.InternalHost(), gateway.PortProxy),
	})
	return flow.Done(), seed.applyShootResource(ctx, apiserverproxy.ResourceName, objects)
}
