package bastion

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/errorcode"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

const (
	// recheck is the interval at which the state of the instance and the load balancer is read from the cloud.
	recheck = 2 * time.Second
	// sshPort is the port of the bastion and of the nodes.
	sshPort = 22
	// cloudProvider is the Secret with the credentials of the Shoot.
	cloudProvider = "cloudprovider"
	// tagBastion names the Bastion, for people.
	tagBastion = "cluster.hortus.dev/bastion"
)

// Cloud is the part of the cloud the Actuator needs.
type Cloud interface {
	ListNetworks(ctx context.Context, f cloud.Filter) ([]cloud.Network, error)
	CreateInstance(ctx context.Context, in cloud.CreateInstance) (*cloud.Instance, error)
	CreateLoadBalancer(ctx context.Context, in cloud.CreateLoadBalancer) (*cloud.LoadBalancer, error)
	UpdateLoadBalancer(ctx context.Context, id string, in cloud.UpdateLoadBalancer) (*cloud.LoadBalancer, error)
	Remover
}

// Actuator acts on Bastions.
type Actuator struct {
	Client client.Reader
	// Cloud returns the cloud for the credentials in a Secret.
	Cloud func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (Cloud, error)
}

var (
	_ extension.Actuator[*extensionsv1alpha1.Bastion]  = &Actuator{}
	_ extension.Validator[*extensionsv1alpha1.Bastion] = &Actuator{}
)

// Validate checks who may connect.
func (a *Actuator) Validate(
	_ context.Context, bastion *extensionsv1alpha1.Bastion, _ *extension.Cluster,
) field.ErrorList {
	_, errs := allowed(bastion.Spec.Ingress)
	return errs
}

// name is the key under which instance and load balancer are found again. Names of Bastions may be longer, and contain
// dots.
func name(bastion *extensionsv1alpha1.Bastion) string {
	sum := sha256.Sum256([]byte(bastion.Namespace + "/" + bastion.Name))
	return "bastion-" + hex.EncodeToString(sum[:8])
}

func tags(bastion *extensionsv1alpha1.Bastion) map[string]string {
	return map[string]string{
		v1alpha1.TagCluster: bastion.Namespace, v1alpha1.TagRole: v1alpha1.RoleBastion, tagBastion: bastion.Name,
	}
}

func (a *Actuator) cloud(ctx context.Context, bastion *extensionsv1alpha1.Bastion) (Cloud, error) {
	return a.Cloud(ctx, a.Client, corev1.SecretReference{Namespace: bastion.Namespace, Name: cloudProvider})
}

// Reconcile makes the instance and its load balancer. The instance is not changed later; who may connect is.
func (a *Actuator) Reconcile(
	ctx context.Context, bastion *extensionsv1alpha1.Bastion, cluster *extension.Cluster,
) (extension.Result, error) {
	prefixes, errs := allowed(bastion.Spec.Ingress)
	if len(errs) > 0 {
		return extension.Result{}, errs.ToAggregate()
	}
	api, err := a.cloud(ctx, bastion)
	if err != nil {
		return extension.Result{}, err
	}
	instance, err := ensureInstance(ctx, api, bastion, cluster)
	if err != nil {
		return extension.Result{}, err
	}
	balancer, err := ensureLoadBalancer(ctx, api, bastion, instance.ID, prefixes)
	if err != nil {
		return extension.Result{}, err
	}
	switch {
	case instance.State != cloud.StateRunning:
		bastion.Status.Ingress = nil
		return extension.Waiting(fmt.Sprintf("Instance %q is %s", instance.ID, instance.State), recheck), nil
	case balancer.State != cloud.StateAvailable:
		bastion.Status.Ingress = nil
		return extension.Waiting(fmt.Sprintf("Load balancer %q is %s", balancer.ID, balancer.State), recheck), nil
	}
	bastion.Status.Ingress = &corev1.LoadBalancerIngress{IP: balancer.Address}
	return extension.Done(), nil
}

func ensureInstance(
	ctx context.Context, api Cloud, bastion *extensionsv1alpha1.Bastion, cluster *extension.Cluster,
) (*cloud.Instance, error) {
	found, err := api.ListInstances(ctx, cloud.Filter{Name: name(bastion)})
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return &found[0], nil
	}
	networks, err := api.ListNetworks(ctx, cloud.Filter{Name: bastion.Namespace})
	if err != nil {
		return nil, err
	}
	if len(networks) == 0 {
		return nil, fmt.Errorf("find the network of the Shoot: network %q does not exist", bastion.Namespace)
	}
	machine, err := chooseMachine(cluster)
	if err != nil {
		return nil, errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
	}
	userData, err := userData(bastion.Spec.UserData, networks[0].CIDR, networks[0].Gateway)
	if err != nil {
		return nil, err
	}
	ctrl.LoggerFrom(ctx).Info("Creating instance", "machineType", machine.machineType, "image", machine.image)
	return api.CreateInstance(ctx, cloud.CreateInstance{
		Name: name(bastion), MachineType: machine.machineType, Image: machine.image, NetworkID: networks[0].ID,
		Tags: tags(bastion), UserData: string(userData),
	})
}

func ensureLoadBalancer(
	ctx context.Context, api Cloud, bastion *extensionsv1alpha1.Bastion, instanceID string, prefixes []string,
) (*cloud.LoadBalancer, error) {
	found, err := api.ListLoadBalancers(ctx, cloud.Filter{Name: name(bastion)})
	if err != nil {
		return nil, err
	}
	listeners := []cloud.Listener{{Port: sshPort, Targets: []cloud.Target{{InstanceID: instanceID, Port: sshPort}}}}
	if len(found) == 0 {
		return api.CreateLoadBalancer(ctx, cloud.CreateLoadBalancer{
			Name: name(bastion), Tags: tags(bastion), Listeners: listeners, AllowedCIDRs: prefixes,
		})
	}
	balancer := &found[0]
	forwards := len(balancer.Listeners) == 1 && balancer.Listeners[0].Port == sshPort &&
		slices.Equal(balancer.Listeners[0].Targets, listeners[0].Targets)
	if forwards && slices.Equal(balancer.AllowedCIDRs, prefixes) || balancer.State == cloud.StateTerminating {
		return balancer, nil
	}
	return api.UpdateLoadBalancer(ctx, balancer.ID, cloud.UpdateLoadBalancer{
		Listeners: listeners, AllowedCIDRs: prefixes,
	})
}

// Restore is never requested: Bastions do not move.
func (a *Actuator) Restore(
	ctx context.Context, bastion *extensionsv1alpha1.Bastion, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, bastion, cluster)
}

// Migrate is never requested: Bastions do not move.
func (a *Actuator) Migrate(
	context.Context, *extensionsv1alpha1.Bastion, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the load balancer and the instance.
func (a *Actuator) Delete(
	ctx context.Context, bastion *extensionsv1alpha1.Bastion, _ *extension.Cluster,
) (extension.Result, error) {
	api, err := a.cloud(ctx, bastion)
	if err != nil {
		return extension.Result{}, err
	}
	left, err := remove(ctx, api, cloud.Filter{Name: name(bastion)})
	if err != nil {
		return extension.Result{}, err
	}
	if left > 0 {
		return extension.Waiting("The load balancer and the instance are being deleted", recheck), nil
	}
	return extension.Done(), nil
}

// ForceDelete leaves the instance and the load balancer to the user.
func (a *Actuator) ForceDelete(
	context.Context, *extensionsv1alpha1.Bastion, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}
