package worker

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
)

// Provider is what an extension author writes: how a machine of a pool in a zone is made.
type Provider interface {
	// Machine describes the machines of a pool in a zone. The zone is empty for a pool without zones.
	Machine(ctx context.Context, worker *extensionsv1alpha1.Worker, cluster *extension.Cluster,
		pool *extensionsv1alpha1.WorkerPool, zone string) (Machine, error)
}

// Machine describes the machines of a pool in a zone.
type Machine struct {
	// Provider and Spec become the MachineClass' provider and providerSpec.
	Provider string
	Spec     runtime.RawExtension
	// NodeLabels are added to those of the pool.
	NodeLabels map[string]string
	// HashV1, HashV2 and HashInPlace are further inputs of the class hash: a change replaces the machines of pools of
	// that kind.
	HashV1, HashV2, HashInPlace []string
}

// inPlace tells whether the machines of a pool are updated instead of replaced.
func inPlace(pool *extensionsv1alpha1.WorkerPool) bool {
	return strategy(pool) != corev1beta1.AutoRollingUpdate
}

func strategy(pool *extensionsv1alpha1.WorkerPool) corev1beta1.MachineUpdateStrategy {
	if pool.UpdateStrategy == nil || *pool.UpdateStrategy == "" {
		return corev1beta1.AutoRollingUpdate
	}
	return *pool.UpdateStrategy
}
