// Package worker describes the machines of the local cloud to the generic worker actuator.
package worker

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/errorcode"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// Provider implements the provider's part of kind Worker.
type Provider struct{}

var _ worker.Provider = Provider{}

// Machine describes the machines of a pool in a zone.
func (Provider) Machine(
	_ context.Context, w *extensionsv1alpha1.Worker, cluster *extension.Cluster, pool *extensionsv1alpha1.WorkerPool,
	zone string,
) (worker.Machine, error) {
	infra, profile, cfg := &v1alpha1.InfrastructureStatus{}, &v1alpha1.CloudProfileConfig{}, &v1alpha1.WorkerConfig{}
	if err := v1alpha1.Decode(w.Spec.InfrastructureProviderStatus, "InfrastructureStatus", infra); err != nil {
		return worker.Machine{}, err
	}
	if infra.NetworkID == "" {
		return worker.Machine{}, fmt.Errorf("the infrastructure status names no network")
	}
	if err := v1alpha1.Decode(cluster.CloudProfile.Spec.ProviderConfig, "CloudProfileConfig", profile); err != nil {
		return worker.Machine{}, errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
	}
	if err := v1alpha1.Decode(pool.ProviderConfig, "WorkerConfig", cfg); err != nil {
		return worker.Machine{}, errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
	}
	image, err := profile.Image(pool.MachineImage.Name, pool.MachineImage.Version, ptr.Deref(pool.Architecture, ""))
	if err != nil {
		return worker.Machine{}, errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
	}
	tags := maps.Clone(cfg.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[v1alpha1.TagCluster], tags[v1alpha1.TagRole], tags[v1alpha1.TagPool] = w.Namespace, v1alpha1.RoleNode, pool.Name
	spec, err := v1alpha1.Encode("MachineSpec", &v1alpha1.MachineSpec{
		MachineType: pool.MachineType, Image: image, NetworkID: infra.NetworkID, Zone: zone, Tags: tags,
	})
	if err != nil {
		return worker.Machine{}, err
	}
	labels := map[string]string{corev1.LabelTopologyRegion: w.Spec.Region}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	maps.Copy(labels, cfg.NodeLabels)
	return worker.Machine{Provider: v1alpha1.Type, Spec: *spec, NodeLabels: labels}, nil
}
