package steps

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// GatewayAddress waits until the seed's gateway has an address that DNS records can point to.
var GatewayAddress = &flow.Step[*Scope]{
	Name:   "gateway-address",
	After:  []*flow.Step[*Scope]{Namespace},
	SkipIf: when(asleep),
	Ensure: use1(ensureGatewayAddress),
}

func ensureGatewayAddress(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	address, err := gatewayAddress(ctx, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	if address == "" {
		return flow.Waiting(waitGateway, "The seed's gateway has no load balancer address yet"), nil
	}
	return flow.Done(), nil
}

// gatewayAddress is the address of the seed's gateway, or "".
func gatewayAddress(ctx context.Context, seed *SeedNamespace) (string, error) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: gateway.Name, Namespace: gateway.Namespace}}
	if _, err := kube.Exists(ctx, seed, service); err != nil {
		return "", err
	}
	return kube.LoadBalancerAddress(service), nil
}
