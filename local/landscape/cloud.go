package landscape

import (
	"context"
	"fmt"
	"time"

	"hortus.dev/hortus/local/cloud"
)

// clusterSpec describes the resources of one of the landscape's own clusters in the cloud.
type clusterSpec struct {
	// name of the cluster, its instance and its network.
	name string
	// cidr of the instance's network and address of the instance in it; fixed, so that certificates can name it.
	cidr, address string
	// apiAddress is the public address of the load balancer in front of the API server.
	apiAddress string
	// seed that the cluster becomes.
	seed string
}

const (
	// clusterMachineType is the size of the landscape's own clusters.
	clusterMachineType = "large"
	clusterImage       = "hortus.dev/machine:1.2.0"
	// tagCluster is the tag of an instance with the name of its cluster.
	tagCluster    = "hortus.dev/cluster"
	apiPort       = 443
	apiTargetPort = 6443
)

// clusters lists the landscape's own clusters; the first one holds the garden.
var clusters = []clusterSpec{
	{name: "garden", cidr: "10.1.0.0/24", address: "10.1.0.10", apiAddress: "198.18.8.1", seed: "local-1"},
	{name: "seed-2", cidr: "10.2.0.0/24", address: "10.2.0.10", apiAddress: "198.18.8.2", seed: "local-2"},
}

// ensureInstance makes the network, the instance and its load balancer. An instance that is there already stays; if its
// user data have changed, it restarts with the new ones.
func ensureInstance(ctx context.Context, c *cloud.Client, spec clusterSpec, userData string) (*cloud.Instance, error) {
	network, err := c.CreateNetwork(ctx, cloud.CreateNetwork{Name: spec.name, CIDR: spec.cidr})
	if err != nil {
		return nil, fmt.Errorf("create network %q: %w", spec.name, err)
	}
	instance, err := ensureInstanceWith(ctx, c, cloud.CreateInstance{
		Name: spec.name, MachineType: clusterMachineType, Image: clusterImage, NetworkID: network.ID,
		UserData: userData, Address: spec.address, Tags: map[string]string{tagCluster: spec.name},
	})
	if err != nil {
		return nil, err
	}
	_, err = c.CreateLoadBalancer(ctx, cloud.CreateLoadBalancer{
		Name: spec.name + "-api", Address: spec.apiAddress,
		Listeners: []cloud.Listener{{Port: apiPort, Targets: []cloud.Target{{InstanceID: instance.ID, Port: apiTargetPort}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("create load balancer %q: %w", spec.name+"-api", err)
	}
	return instance, nil
}

func ensureInstanceWith(ctx context.Context, c *cloud.Client, wanted cloud.CreateInstance) (*cloud.Instance, error) {
	instance, err := c.CreateInstance(ctx, wanted)
	if cloud.CodeOf(err) == cloud.CodeAlreadyExists {
		instance, err = updateInstance(ctx, c, wanted)
	}
	if err != nil {
		return nil, fmt.Errorf("create instance %q: %w", wanted.Name, err)
	}
	return instance, nil
}

// updateInstance gives the instance of that name new user data, and waits until it has booted with them.
func updateInstance(ctx context.Context, c *cloud.Client, wanted cloud.CreateInstance) (*cloud.Instance, error) {
	found, err := c.ListInstances(ctx, cloud.Filter{Name: wanted.Name})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d instances have that name", len(found))
	}
	if err := waitInstance(ctx, c, found[0].ID); err != nil {
		return nil, err
	}
	before, err := c.GetInstance(ctx, found[0].ID)
	if err != nil {
		return nil, err
	}
	_, err = c.UpdateInstance(ctx, before.ID, wanted)
	if cloud.CodeOf(err) == cloud.CodeInvalid {
		return nil, fmt.Errorf("%w; 'hortus down' and 'hortus up' recreate it", err)
	}
	if err != nil {
		return nil, err
	}
	return before, cloudUntil(ctx, c, func() (bool, error) {
		now, err := c.GetInstance(ctx, before.ID)
		if err != nil {
			return false, err
		}
		return now.Boots > before.Boots && now.State == cloud.StateRunning, nil
	})
}

// waitInstance waits until the cloud reports that the instance runs.
func waitInstance(ctx context.Context, c *cloud.Client, id string) error {
	return cloudUntil(ctx, c, func() (bool, error) {
		instance, err := c.GetInstance(ctx, id)
		if err != nil {
			return false, err
		}
		return instance.State == cloud.StateRunning, nil
	})
}

// cloudUntil calls done at once and after every change in the cloud, until it returns true.
func cloudUntil(ctx context.Context, c *cloud.Client, done func() (bool, error)) error {
	var since int64
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		events, err := c.Events(ctx, since, 10*time.Second)
		if err != nil {
			return err
		}
		since = events.Revision
	}
}
