package steps

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/apiserverproxy"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/flow"
)

// APIServerProxy stands in for the API server's address on every node.
var APIServerProxy = &flow.Step[*Scope]{
	Name:   "apiserver-proxy",
	After:  []*flow.Step[*Scope]{ShootNamespaces, KubeAPIServerService},
	SkipIf: workerlessOrAsleep,
	Ensure: shootResource(apiserverproxy.ResourceName, renderAPIServerProxy),
}

func renderAPIServerProxy(ctx context.Context, s *Scope) ([]client.Object, error) {
	address, err := s.proxyAddress(ctx)
	if err != nil {
		return nil, err
	}
	return apiserverproxy.Render(apiserverproxy.Values{
		Image: s.Images.Hortus, Address: address, Gateway: fmt.Sprintf("%s:%d", s.InternalHost(), gateway.PortProxy),
	}), nil
}
