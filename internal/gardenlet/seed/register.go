package seed

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/kube"
)

// Register creates the Seed, or updates its spec from the configuration, which is its only source. Labels and
// annotations of the configuration are added to those of the Seed, and win. An operation among them is requested when
// the Seed is created, and not again.
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
	current.Labels = joined(current.Labels, c.Labels)
	annotations := maps.Clone(c.Annotations)
	delete(annotations, corev1beta1.AnnotationOperation)
	current.Annotations = joined(current.Annotations, annotations)
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

// joined returns the first map with the entries of the second, which win.
func joined(base, more map[string]string) map[string]string {
	if len(more) == 0 {
		return base
	}
	out := map[string]string{}
	maps.Copy(out, base)
	maps.Copy(out, more)
	return out
}
