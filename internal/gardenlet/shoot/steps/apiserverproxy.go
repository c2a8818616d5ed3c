package steps

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/apiserverproxy"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/component/kubeapiserver"
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
	service := &corev1.Service{}
	if err := s.Seed.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: kubeapiserver.Name}, service); err != nil {
		return nil, fmt.Errorf("read Service kube-apiserver: %w", err)
	}
	return apiserverproxy.Render(apiserverproxy.Values{
		Image: s.Images.Hortus, Address: service.Spec.ClusterIP, Gateway: fmt.Sprintf("%s:%d", s.InternalHost(), gateway.PortProxy),
	}), nil
}
