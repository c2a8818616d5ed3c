// Package infrastructure acts on Infrastructures: a Shoot gets a network of its own in the cloud.
package infrastructure

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/bastion"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// recheck is the interval at which the state of a network that is being created is read from the cloud.
const recheck = 2 * time.Second

// Cloud is the part of the cloud the Actuator needs.
type Cloud interface {
	CreateNetwork(ctx context.Context, in cloud.CreateNetwork) (*cloud.Network, error)
	ListNetworks(ctx context.Context, f cloud.Filter) ([]cloud.Network, error)
	DeleteNetwork(ctx context.Context, id string) error
	ListVolumes(ctx context.Context, f cloud.Filter) ([]cloud.Volume, error)
	DetachVolume(ctx context.Context, id, instanceID string) (*cloud.Volume, error)
	DeleteVolume(ctx context.Context, id string) error
	bastion.Remover
}

// Actuator acts on Infrastructures.
type Actuator struct {
	Client client.Reader
	// Cloud returns the cloud for the credentials in a Secret.
	Cloud func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (Cloud, error)
}

var (
	_ extension.Actuator[*extensionsv1alpha1.Infrastructure]  = &Actuator{}
	_ extension.Validator[*extensionsv1alpha1.Infrastructure] = &Actuator{}
)

// Validate checks the provider's configuration.
func (a *Actuator) Validate(
	_ context.Context, infra *extensionsv1alpha1.Infrastructure, _ *extension.Cluster,
) field.ErrorList {
	path := field.NewPath("spec", "providerConfig")
	cfg := &v1alpha1.InfrastructureConfig{}
	if err := v1alpha1.Decode(infra.Spec.ProviderConfig, "InfrastructureConfig", cfg); err != nil {
		return field.ErrorList{field.Invalid(path, "<config>", err.Error())}
	}
	if cidr := cfg.Networks.CIDR; cidr != "" {
		if p, err := netip.ParsePrefix(cidr); err != nil || !p.Addr().Is4() {
			return field.ErrorList{field.Invalid(path.Child("networks", "cidr"), cidr, "must be an IPv4 network")}
		}
	}
	return nil
}

// networkName is the key under which the network is found again: one per control plane namespace.
func networkName(infra *extensionsv1alpha1.Infrastructure) string { return infra.Namespace }

// desiredCIDR returns the requested CIDR, or "" to let the cloud pick one. A CIDR that was picked before stays.
func desiredCIDR(
	infra *extensionsv1alpha1.Infrastructure, cluster *extension.Cluster, cfg *v1alpha1.InfrastructureConfig,
) string {
	switch {
	case cfg.Networks.CIDR != "":
		return cfg.Networks.CIDR
	case infra.Status.NodesCIDR != nil:
		return *infra.Status.NodesCIDR
	case cluster != nil && cluster.Shoot.Spec.Networking != nil && cluster.Shoot.Spec.Networking.Nodes != nil:
		return *cluster.Shoot.Spec.Networking.Nodes
	default:
		return ""
	}
}

// Reconcile makes the network.
func (a *Actuator) Reconcile(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extension.Cluster,
) (extension.Result, error) {
	cfg := &v1alpha1.InfrastructureConfig{}
	if err := v1alpha1.Decode(infra.Spec.ProviderConfig, "InfrastructureConfig", cfg); err != nil {
		return extension.Result{}, err
	}
	api, err := a.Cloud(ctx, a.Client, infra.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	found, err := api.ListNetworks(ctx, cloud.Filter{Name: networkName(infra)})
	if err != nil {
		return extension.Result{}, err
	}
	var network *cloud.Network
	if len(found) > 0 {
		network = &found[0]
	} else {
		network, err = api.CreateNetwork(ctx, cloud.CreateNetwork{
			Name: networkName(infra), CIDR: desiredCIDR(infra, cluster, cfg),
			Tags: map[string]string{v1alpha1.TagCluster: infra.Namespace},
		})
		if err != nil {
			return extension.Result{}, err
		}
	}
	if network.State == cloud.StatePending {
		return extension.Waiting(fmt.Sprintf("Network %q is being created", network.ID), recheck), nil
	}
	infra.Status.NodesCIDR = ptr.To(network.CIDR)
	infra.Status.Networking = &extensionsv1alpha1.InfrastructureStatusNetworking{Nodes: []string{network.CIDR}}
	if network.UplinkAddress != "" {
		infra.Status.EgressCIDRs = []string{network.UplinkAddress + "/32"}
	}
	infra.Status.ProviderStatus, err = v1alpha1.Encode("InfrastructureStatus", &v1alpha1.InfrastructureStatus{
		NetworkID: network.ID, CIDR: network.CIDR,
	})
	return extension.Done(), err
}

// Restore finds the network by its name, so it needs no state.
func (a *Actuator) Restore(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, infra, cluster)
}

// Migrate has nothing in the seed to remove.
func (a *Actuator) Migrate(
	context.Context, *extensionsv1alpha1.Infrastructure, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the Shoot's leftover volumes and bastions, and then the network; the cloud refuses while instances are
// in it. Usually there are no bastions: the Bastions were deleted before, except on a seed that is gone.
func (a *Actuator) Delete(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, _ *extension.Cluster,
) (extension.Result, error) {
	api, err := a.Cloud(ctx, a.Client, infra.Spec.SecretRef)
	if err != nil {
		return extension.Result{}, err
	}
	left, err := removeVolumes(ctx, api, infra)
	if err != nil {
		return extension.Result{}, err
	}
	if left > 0 {
		return extension.Waiting(fmt.Sprintf("%d volumes are being deleted", left), recheck), nil
	}
	if left, err = bastion.RemoveAll(ctx, api, infra.Namespace); err != nil {
		return extension.Result{}, err
	}
	if left > 0 {
		return extension.Waiting("Bastions are being deleted", recheck), nil
	}
	found, err := api.ListNetworks(ctx, cloud.Filter{Name: networkName(infra)})
	if err != nil {
		return extension.Result{}, err
	}
	for _, network := range found {
		if network.State != cloud.StateTerminating {
			if err := api.DeleteNetwork(ctx, network.ID); cloud.IgnoreNotFound(err) != nil {
				return extension.Result{}, err
			}
		}
	}
	if len(found) > 0 {
		return extension.Waiting("The network is being deleted", recheck), nil
	}
	return extension.Done(), nil
}

// ForceDelete removes the volumes of the Shoot, if the cloud lets it, and leaves the network to the user.
func (a *Actuator) ForceDelete(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, _ *extension.Cluster,
) (extension.Result, error) {
	api, err := a.Cloud(ctx, a.Client, infra.Spec.SecretRef)
	if err == nil {
		var left int
		if left, err = removeVolumes(ctx, api, infra); err == nil && left > 0 {
			return extension.Waiting(fmt.Sprintf("%d volumes are being deleted", left), recheck), nil
		}
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Leaving the volumes to the user")
	}
	return extension.Done(), nil
}

// removeVolumes requests the deletion of all volumes with the tag of the cluster, even if they are in use, and returns
// how many are left. Usually there are none: the claims of the Shoot were deleted before.
func removeVolumes(ctx context.Context, api Cloud, infra *extensionsv1alpha1.Infrastructure) (left int, err error) {
	found, err := api.ListVolumes(ctx, cloud.Filter{Tags: map[string]string{v1alpha1.TagCluster: infra.Namespace}})
	if err != nil {
		return 0, err
	}
	for _, volume := range found {
		switch {
		case volume.State == cloud.StateTerminating:
		case volume.InstanceID != "":
			_, err = api.DetachVolume(ctx, volume.ID, volume.InstanceID)
		default:
			err = api.DeleteVolume(ctx, volume.ID)
		}
		if cloud.IgnoreNotFound(err) != nil {
			return len(found), err
		}
	}
	return len(found), nil
}
