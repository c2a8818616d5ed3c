package admission

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// SeedLabels returns labels that mark an object as relevant to the given Seeds, and to no others.
func SeedLabels(labels map[string]string, seeds ...*string) map[string]string {
	return registry.SeedLabels(labels, seeds...)
}

// ShootOfManagedSeed returns the Shoot that a managed Seed runs in, nil for other Seeds. It has only the fields that
// ShootsOnSeed describes.
func (o *Objects) ShootOfManagedSeed(ctx context.Context, seed string) (*corev1beta1.Shoot, error) {
	managed := &seedmanagementv1alpha1.ManagedSeed{}
	key := client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: seed}
	if err := o.Cached.Get(ctx, key, managed); err != nil || managed.Spec.Shoot == nil {
		return nil, client.IgnoreNotFound(err)
	}
	shoot := &corev1beta1.Shoot{}
	if err := o.Cached.Get(ctx, client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: managed.Spec.Shoot.Name},
		shoot); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return shoot, nil
}

// TargetOfIdentity returns the target type of a WorkloadIdentity, "" if the WorkloadIdentity does not exist.
func (o *Objects) TargetOfIdentity(ctx context.Context, namespace, name string) (string, error) {
	identity := &securityv1alpha1.WorkloadIdentity{}
	if err := o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, identity); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return identity.Spec.TargetSystem.Type, nil
}

// UserOfSeed returns a Shoot whose control plane is on a Seed or is to move there, "" if there is none. It reads from
// the API server, because a deletion cannot be undone.
func (o *Objects) UserOfSeed(ctx context.Context, seed string) (string, error) {
	for _, key := range []string{"spec.seedName", "status.seedName"} {
		shoots := &corev1beta1.ShootList{}
		if err := o.Live.List(ctx, shoots, client.MatchingFields{key: seed}, client.Limit(1)); err != nil {
			return "", fmt.Errorf("list Shoots of Seed %q: %w", seed, err)
		}
		if len(shoots.Items) > 0 {
			return shoots.Items[0].Namespace + "/" + shoots.Items[0].Name, nil
		}
	}
	return "", nil
}
