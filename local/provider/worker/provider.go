// Package worker describes the machines of the local cloud to the generic worker actuator.
package worker

import (
	"context"
	"fmt"
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/errorcode"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// Images is the part of the cloud the Provider needs.
type Images interface {
	PrepareImage(ctx context.Context, in cloud.PrepareImage) (*cloud.Image, error)
}

// Provider implements the provider's part of kind Worker.
type Provider struct {
	Client client.Reader
	// Cloud returns the cloud for the credentials in a Secret.
	Cloud func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (Images, error)
}

var (
	_ worker.Provider = Provider{}
	_ worker.Preparer = Provider{}
)

// Prepare implements [worker.Preparer]. Machines of a Kubernetes version that the cloud builds on first use would wait
// for the kubelet, which is the last of the version's images to be built.
func (p Provider) Prepare(
	ctx context.Context, w *extensionsv1alpha1.Worker, cluster *extension.Cluster, pool *extensionsv1alpha1.WorkerPool,
) (string, error) {
	api, err := p.Cloud(ctx, p.Client, w.Spec.SecretRef)
	if err != nil {
		return "", err
	}
	version := ptr.Deref(pool.KubernetesVersion, cluster.Shoot.Spec.Kubernetes.Version)
	kubelet, err := api.PrepareImage(ctx, cloud.PrepareImage{Name: image.Kubelet(version), Cluster: w.Namespace})
	if cloud.CodeOf(err) == cloud.CodeNotFound { // Machines get it elsewhere.
		return "", nil
	}
	if err != nil || kubelet.Ready {
		return "", err
	}
	return kubelet.Message, nil
}

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
	machineImage, err := profile.Image(pool.MachineImage.Name, pool.MachineImage.Version, ptr.Deref(pool.Architecture, ""))
	if err != nil {
		return worker.Machine{}, errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
	}
	tags := maps.Clone(cfg.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[v1alpha1.TagCluster], tags[v1alpha1.TagRole], tags[v1alpha1.TagPool] = w.Namespace, v1alpha1.RoleNode, pool.Name
	volumes, err := volumesOf(pool)
	if err != nil {
		return worker.Machine{}, errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
	}
	spec, err := v1alpha1.Encode("MachineSpec", &v1alpha1.MachineSpec{
		MachineType: pool.MachineType, Image: machineImage, NetworkID: infra.NetworkID, Zone: zone, Tags: tags,
		Volumes: volumes,
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

const (
	// kubeletPath is the kubelet's directory, dataPath has those of all other data volumes, by their names.
	kubeletPath = "/var/lib/kubelet"
	dataPath    = "/mnt/data"
)

// volumesOf are the data volumes of a pool.
func volumesOf(pool *extensionsv1alpha1.WorkerPool) ([]v1alpha1.MachineVolume, error) {
	var out []v1alpha1.MachineVolume
	for _, v := range pool.DataVolumes {
		size, err := resource.ParseQuantity(v.Size)
		if err != nil {
			return nil, fmt.Errorf("size of data volume %q: invalid value: %q: %w", v.Name, v.Size, err)
		}
		at := path.Join(dataPath, v.Name)
		if v.Name == ptr.Deref(pool.KubeletDataVolumeName, "") {
			at = kubeletPath
		}
		out = append(out, v1alpha1.MachineVolume{Name: v.Name, SizeBytes: size.Value(), Path: at})
	}
	return out, nil
}
