package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

const (
	keyUserData = "userData"

	// An instance is removed within a second or two. Waiting for it here spares the machine controller an error and 5
	// s, and the bound is below its own timeouts.
	deletionWait = 20 * time.Second
	deletionPoll = 250 * time.Millisecond
)

// Resources is the part of the cloud the Driver needs.
type Resources interface {
	CreateInstance(ctx context.Context, in cloud.CreateInstance) (*cloud.Instance, error)
	ListInstances(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error)
	DeleteInstance(ctx context.Context, id string) error
	CreateVolume(ctx context.Context, in cloud.CreateVolume) (*cloud.Volume, error)
	ListVolumes(ctx context.Context, f cloud.Filter) ([]cloud.Volume, error)
	DeleteVolume(ctx context.Context, id string) error
}

// Driver makes and deletes machines as instances of the local cloud. An instance has the name of its machine, which is
// the cloud's idempotency key, so a repeated call finds what the first one made. The same holds for its data volumes.
type Driver struct {
	// Cloud returns the cloud for the credentials in the data of a Secret.
	Cloud func(data map[string][]byte) (Resources, error)
	Clock clock.Clock
}

var _ driver.Driver = &Driver{}

// CloudFor returns the function a Driver needs; used is called with every client handed out.
func CloudFor(clients *credentials.Clients, used func(*cloud.Client)) func(map[string][]byte) (Resources, error) {
	return func(data map[string][]byte) (Resources, error) {
		cfg, err := credentials.FromData(data)
		if err != nil {
			return nil, status.Error(codes.Unauthenticated, err.Error())
		}
		api, err := clients.Get(cfg)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		used(api)
		return api, nil
	}
}

// open decodes the arguments that all calls have.
func (d *Driver) open(
	class *machinev1alpha1.MachineClass, secret *corev1.Secret,
) (*v1alpha1.MachineSpec, Resources, error) {
	if class.Provider != v1alpha1.Type {
		return nil, nil, status.Error(codes.InvalidArgument,
			fmt.Sprintf("machine class %q is for provider %q, not %q", class.Name, class.Provider, v1alpha1.Type))
	}
	spec := &v1alpha1.MachineSpec{}
	if err := json.Unmarshal(class.ProviderSpec.Raw, spec); err != nil {
		return nil, nil, status.Error(codes.InvalidArgument,
			fmt.Sprintf("decode provider specification of machine class %q: %v", class.Name, err))
	}
	if secret == nil {
		return nil, nil, status.Error(codes.InvalidArgument, fmt.Sprintf("machine class %q has no secret", class.Name))
	}
	api, err := d.Cloud(secret.Data)
	return spec, api, err
}

// find returns the instance of a machine, or nil.
func find(ctx context.Context, api Resources, machine *machinev1alpha1.Machine) (*cloud.Instance, error) {
	found, err := api.ListInstances(ctx, cloud.Filter{Name: machine.Name})
	if err != nil {
		return nil, statusError(err)
	}
	for i := range found {
		if found[i].Name == machine.Name {
			return &found[i], nil
		}
	}
	return nil, nil
}

// CreateMachine makes an instance; its node has the same name.
func (d *Driver) CreateMachine(
	ctx context.Context, req *driver.CreateMachineRequest,
) (*driver.CreateMachineResponse, error) {
	spec, api, err := d.open(req.MachineClass, req.Secret)
	if err != nil {
		return nil, err
	}
	volumes, err := createVolumes(ctx, api, req.Machine.Name, spec)
	if err != nil {
		return nil, statusError(err)
	}
	instance, err := api.CreateInstance(ctx, cloud.CreateInstance{
		Name: req.Machine.Name, MachineType: spec.MachineType, Image: spec.Image, NetworkID: spec.NetworkID, Zone: spec.Zone,
		Tags: spec.Tags, UserData: string(req.Secret.Data[keyUserData]), Volumes: volumes,
	})
	if err != nil {
		return nil, statusError(err)
	}
	return &driver.CreateMachineResponse{
		ProviderID: instance.ProviderID, NodeName: instance.Name,
		LastKnownState: fmt.Sprintf("Created instance %s", instance.ID),
		Addresses:      addresses(instance),
	}, nil
}

// createVolumes creates the data volumes of a machine. They are attached for as long as the instance exists.
func createVolumes(
	ctx context.Context, api Resources, machine string, spec *v1alpha1.MachineSpec,
) ([]cloud.VolumeAttachment, error) {
	var out []cloud.VolumeAttachment
	for _, v := range spec.Volumes {
		volume, err := api.CreateVolume(ctx, cloud.CreateVolume{
			Name: machine + "-" + v.Name, Zone: spec.Zone, SizeBytes: v.SizeBytes,
			Tags: map[string]string{
				v1alpha1.TagCluster: spec.Tags[v1alpha1.TagCluster], v1alpha1.TagMachine: machine,
			},
		})
		if err != nil {
			return nil, err
		}
		out = append(out, cloud.VolumeAttachment{VolumeID: volume.ID, Path: v.Path})
	}
	return out, nil
}

// deleteVolumes deletes the data volumes of a machine whose instance is gone, whatever its class says by now.
func deleteVolumes(ctx context.Context, api Resources, machine string, spec *v1alpha1.MachineSpec) error {
	found, err := api.ListVolumes(ctx, cloud.Filter{Tags: map[string]string{
		v1alpha1.TagCluster: spec.Tags[v1alpha1.TagCluster], v1alpha1.TagMachine: machine,
	}})
	if err != nil {
		return err
	}
	for _, volume := range found {
		if err := api.DeleteVolume(ctx, volume.ID); cloud.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// InitializeMachine has nothing to do: an instance is complete when it is made.
func (d *Driver) InitializeMachine(
	context.Context, *driver.InitializeMachineRequest,
) (*driver.InitializeMachineResponse, error) {
	return nil, status.Error(codes.Unimplemented, "instances need no initialization")
}

// DeleteMachine removes the instance, waits a little for it to be gone, and removes its data volumes.
func (d *Driver) DeleteMachine(
	ctx context.Context, req *driver.DeleteMachineRequest,
) (*driver.DeleteMachineResponse, error) {
	spec, api, err := d.open(req.MachineClass, req.Secret)
	if err != nil {
		return nil, err
	}
	deadline := d.Clock.Now().Add(deletionWait)
	for requested := false; ; {
		instance, err := find(ctx, api, req.Machine)
		if err != nil {
			return nil, err
		}
		if instance == nil {
			if err := deleteVolumes(ctx, api, req.Machine.Name, spec); err != nil {
				return nil, statusError(err)
			}
			return &driver.DeleteMachineResponse{LastKnownState: "Instance is gone"}, nil
		}
		if !requested {
			if err := api.DeleteInstance(ctx, instance.ID); cloud.IgnoreNotFound(err) != nil {
				return nil, statusError(err)
			}
			requested = true
		}
		if d.Clock.Now().After(deadline) {
			return nil, status.Error(codes.Unavailable, fmt.Sprintf("instance %s is still %s", instance.ID, instance.State))
		}
		select {
		case <-ctx.Done():
			return nil, status.Error(codes.Aborted, ctx.Err().Error())
		case <-d.Clock.After(deletionPoll):
		}
	}
}

// GetMachineStatus finds the instance of a machine.
func (d *Driver) GetMachineStatus(
	ctx context.Context, req *driver.GetMachineStatusRequest,
) (*driver.GetMachineStatusResponse, error) {
	_, api, err := d.open(req.MachineClass, req.Secret)
	if err != nil {
		return nil, err
	}
	instance, err := find(ctx, api, req.Machine)
	if err != nil {
		return nil, err
	}
	if instance == nil {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("there is no instance %q", req.Machine.Name))
	}
	return &driver.GetMachineStatusResponse{
		ProviderID: instance.ProviderID, NodeName: instance.Name, Addresses: addresses(instance),
	}, nil
}

// ListMachines lists all instances of the Shoot, so that those without machine are found and deleted.
func (d *Driver) ListMachines(
	ctx context.Context, req *driver.ListMachinesRequest,
) (*driver.ListMachinesResponse, error) {
	spec, api, err := d.open(req.MachineClass, req.Secret)
	if err != nil {
		return nil, err
	}
	if spec.Tags[v1alpha1.TagCluster] == "" {
		// Without the tag every instance of the account would look like an orphan.
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("machine class %q has no tag %s", req.MachineClass.Name,
			v1alpha1.TagCluster))
	}
	found, err := api.ListInstances(ctx, cloud.Filter{Tags: map[string]string{
		v1alpha1.TagCluster: spec.Tags[v1alpha1.TagCluster], v1alpha1.TagRole: v1alpha1.RoleNode,
	}})
	if err != nil {
		return nil, statusError(err)
	}
	out := &driver.ListMachinesResponse{MachineList: map[string]string{}}
	for _, instance := range found {
		if instance.State != cloud.StateTerminating {
			out.MachineList[instance.ProviderID] = instance.Name
		}
	}
	return out, nil
}

// GetVolumeIDs returns the volumes of the cloud among PersistentVolumes: a drain waits until they are detached.
func (d *Driver) GetVolumeIDs(
	_ context.Context, req *driver.GetVolumeIDsRequest,
) (*driver.GetVolumeIDsResponse, error) {
	out := &driver.GetVolumeIDsResponse{}
	for _, spec := range req.PVSpecs {
		if spec.CSI != nil && spec.CSI.Driver == csi.Driver {
			out.VolumeIDs = append(out.VolumeIDs, spec.CSI.VolumeHandle)
		}
	}
	return out, nil
}

func addresses(instance *cloud.Instance) []corev1.NodeAddress {
	out := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: instance.Name}}
	if instance.Address != "" {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: instance.Address})
	}
	return out
}
