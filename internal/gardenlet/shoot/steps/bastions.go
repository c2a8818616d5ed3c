package steps

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// Bastions belong to Bastions of the garden, and are made by another controller. They leave the network of the Shoot
// before it is deleted, and end with the SSH access to nodes. No other part of the Shoot depends on them.
var (
	Bastions = &flow.Step[*Scope]{
		Name:    "bastions",
		After:   []*flow.Step[*Scope]{Infrastructure},
		Aside:   true,
		SkipIf:  when(workerless),
		Ensure:  use3(ensureBastions),
		Remove:  use2(removeBastions),
		Recheck: recheck, // They are not watched with the Shoot.
	}
	// BastionsRemoved: bastions do not move with a control plane, not even from a seed that was given up as dead.
	BastionsRemoved = &flow.Step[*Scope]{
		Name:    "bastions-removed",
		SkipIf:  when(workerless),
		Ensure:  use2(removeBastions),
		Recheck: recheck,
	}
)

func ensureBastions(ctx context.Context, s *Values, seed *SeedNamespace, extensions *Extensions) (flow.Outcome, error) {
	if s.SSHAccess() {
		return flow.Done(), nil
	}
	return removeBastions(ctx, seed, extensions)
}

func removeBastions(ctx context.Context, seed *SeedNamespace, extensions *Extensions) (flow.Outcome, error) {
	list := &extensionsv1alpha1.BastionList{}
	if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil {
		return flow.Outcome{}, fmt.Errorf("list Bastions: %w", err)
	}
	var all []extensionsv1alpha1.Object
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return every(ctx, all, func(ctx context.Context, o extensionsv1alpha1.Object) (flow.Outcome, error) {
		return extensions.delete(ctx, o, severeDefault)
	})
}
