package seed

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/kube"
)

// Register creates the Seed, or updates its spec and labels from the configuration, which is their only source.
func Register(ctx context.Context, garden client.Client, c *config.SeedConfig) error {
	seed := &corev1beta1.Seed{ObjectMeta: *c.ObjectMeta.DeepCopy(), Spec: *c.Spec.DeepCopy()}
	current := &corev1beta1.Seed{ObjectMeta: c.ObjectMeta}
	found, err := kube.Exists(ctx, garden, current)
	if err != nil {
		return err
	}
	if !found {
		log.FromContext(ctx).Info("Registering Seed", "Seed", seed.Name)
		if err := garden.Create(ctx, seed); err != nil {
			return fmt.Errorf("register Seed %q: %w", seed.Name, err)
		}
		return nil
	}
	before := current.DeepCopy()
	if current.Labels == nil {
		current.Labels = map[string]string{}
	}
	for k, v := range c.Labels {
		current.Labels[k] = v
	}
	current.Spec = seed.Spec
	if equality.Semantic.DeepEqual(before, current) {
		return nil
	}
	log.FromContext(ctx).Info("Updating Seed from the configuration", "Seed", seed.Name)
	if err := garden.Patch(ctx, current, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("update Seed %q: %w", seed.Name, err)
	}
	return nil
}
