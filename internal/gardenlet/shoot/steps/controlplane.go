package steps

import (
	"context"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// ControlPlane has the provider's components of the control plane, such as its cloud-controller-manager.
var ControlPlane = &flow.Step[*Scope]{
	Name:   "control-plane",
	After:  []*flow.Step[*Scope]{Infrastructure, ManagedResources},
	SkipIf: when(workerless, asleep),
	Ensure: use3(ensureControlPlane),
	Remove: use2(removeControlPlane),
}

func ensureControlPlane(
	ctx context.Context, s *Values, seed *SeedNamespace, extensions *Extensions,
) (flow.Outcome, error) {
	infrastructure, err := infrastructure(ctx, s, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	return extensions.reconcile(ctx, extensionRequest{
		object: &extensionsv1alpha1.ControlPlane{
			ObjectMeta: s.extensionMeta(s.Shoot.Name),
			Spec: extensionsv1alpha1.ControlPlaneSpec{
				DefaultSpec: extensionsv1alpha1.DefaultSpec{
					Type: s.Shoot.Spec.Provider.Type, ProviderConfig: s.Shoot.Spec.Provider.ControlPlaneConfig,
				},
				Region:                       s.Shoot.Spec.Region,
				SecretRef:                    cloudSecretRef(s.Namespace),
				InfrastructureProviderStatus: infrastructure.Status.ProviderStatus,
			},
		},
		trigger: triggerAlways, severe: severeDefault,
	})
}

func removeControlPlane(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	return extensions.delete(ctx, &extensionsv1alpha1.ControlPlane{ObjectMeta: s.extensionMeta(s.Shoot.Name)},
		severeDefault)
}
