package steps

import (
	"context"

	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// Network is the network plugin of the Shoot's pods.
var Network = &flow.Step[*Scope]{
	Name: "network",
	After: []*flow.Step[*Scope]{
		Infrastructure, ManagedResources, ShootNamespaces, ControlPlane, ExtensionsAfterKubeAPIServer,
	},
	SkipIf: when(workerless, asleep),
	Ensure: use2(ensureNetwork),
	Remove: use2(removeNetwork),
}

func ensureNetwork(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	n := s.Shoot.Spec.Networking
	spec := extensionsv1alpha1.NetworkSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: ptr.Deref(n.Type, ""), ProviderConfig: n.ProviderConfig},
		PodCIDR:     s.PodCIDR(),
		ServiceCIDR: s.ServiceCIDR(),
	}
	for _, f := range n.IPFamilies {
		spec.IPFamilies = append(spec.IPFamilies, extensionsv1alpha1.IPFamily(f))
	}
	return extensions.reconcile(ctx, extensionRequest{
		object:  &extensionsv1alpha1.Network{ObjectMeta: s.extensionMeta(s.Shoot.Name), Spec: spec},
		trigger: triggerAlways, severe: severeDefault,
	})
}

func removeNetwork(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	return extensions.delete(ctx, &extensionsv1alpha1.Network{ObjectMeta: s.extensionMeta(s.Shoot.Name)}, severeDefault)
}
