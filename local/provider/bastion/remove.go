package bastion

import (
	"context"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// Remover is the part of the cloud by which bastions are removed.
type Remover interface {
	ListInstances(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error)
	DeleteInstance(ctx context.Context, id string) error
	ListLoadBalancers(ctx context.Context, f cloud.Filter) ([]cloud.LoadBalancer, error)
	DeleteLoadBalancer(ctx context.Context, id string) error
}

// RemoveAll requests the deletion of all bastions of a Shoot, by the name of its control plane namespace, and returns
// how many load balancers and instances are left. It finds those, too, whose Bastion was on a seed that is gone.
func RemoveAll(ctx context.Context, api Remover, namespace string) (left int, err error) {
	return remove(ctx, api, cloud.Filter{Tags: map[string]string{
		v1alpha1.TagCluster: namespace, v1alpha1.TagRole: v1alpha1.RoleBastion,
	}})
}

// remove requests the deletion of load balancers and instances, and returns how many are left. It closes the way in
// first.
func remove(ctx context.Context, api Remover, f cloud.Filter) (left int, err error) {
	balancers, err := api.ListLoadBalancers(ctx, f)
	if err != nil {
		return 0, err
	}
	for _, balancer := range balancers {
		if balancer.State != cloud.StateTerminating {
			if err := api.DeleteLoadBalancer(ctx, balancer.ID); cloud.IgnoreNotFound(err) != nil {
				return 0, err
			}
		}
	}
	instances, err := api.ListInstances(ctx, f)
	if err != nil {
		return 0, err
	}
	for _, instance := range instances {
		if instance.State != cloud.StateTerminating {
			if err := api.DeleteInstance(ctx, instance.ID); cloud.IgnoreNotFound(err) != nil {
				return 0, err
			}
		}
	}
	return len(balancers) + len(instances), nil
}
