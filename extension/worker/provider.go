package worker

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
)

// Provider is implemented by an extension author: it describes how to create a machine of a pool in a zone.
type Provider interface {
	// Machine describes the machines of a pool in a zone. The zone is empty for a pool without zones.
	Machine(ctx context.Context, worker *extensionsv1alpha1.Worker, cluster *extension.Cluster,
		pool *extensionsv1alpha1.WorkerPool, zone string) (Machine, error)
}

// Preparer is implemented by a Provider whose machines may depend on something that takes a while to make, such as an
// image that the cloud builds on first use. Machines that are created too early exceed their creation timeout and are
// replaced again and again.
type Preparer interface {
	// Prepare returns what the machines of a pool wait for, in words for users; "" if they can be created. It requests
	// what is missing and does not wait for it.
	Prepare(ctx context.Context, worker *extensionsv1alpha1.Worker, cluster *extension.Cluster,
		pool *extensionsv1alpha1.WorkerPool) (waitsFor string, err error)
}

// Machine describes the machines of a pool in a zone.
type Machine struct {
	// Provider and Spec become the provider and the providerSpec of the MachineClass.
	Provider string
	Spec     runtime.RawExtension
	// NodeLabels are added to the labels of the pool.
	NodeLabels map[string]string
	// HashV1, HashV2 and HashInPlace are further inputs of the class hash: for pools with version 1 of the hash, for pools
	// with version 2, and for pools updated in place. A change replaces the machines of these pools, or updates them in
	// place.
	HashV1, HashV2, HashInPlace []string
}

// inPlace reports whether the machines of a pool are updated instead of replaced.
func inPlace(pool *extensionsv1alpha1.WorkerPool) bool {
	return strategy(pool) != corev1beta1.AutoRollingUpdate
}

func strategy(pool *extensionsv1alpha1.WorkerPool) corev1beta1.MachineUpdateStrategy {
	if pool.UpdateStrategy == nil || *pool.UpdateStrategy == "" {
		return corev1beta1.AutoRollingUpdate
	}
	return *pool.UpdateStrategy
}
