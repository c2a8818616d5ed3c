// Package containerruntime acts on ContainerRuntimes of type gvisor: pods of a Shoot can run in gVisor's sandboxes. The
// programs are on the machines of the pool by way of the OperatingSystemConfig; what is in the Shoot is a RuntimeClass.
package containerruntime

import (
	"context"
	"fmt"
	"sync"
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/managedresource"
)

// Type of the ContainerRuntimes acted upon, and name of the RuntimeClass.
const Type = "gvisor"

const (
	managedResource = "extension-containerruntime-gvisor"
	recheck         = 5 * time.Second
)

// Actuator acts on ContainerRuntimes. The pools of a Shoot share one RuntimeClass, which exists as long as one of them
// has the runtime.
type Actuator struct {
	Client client.Client

	// mu lets one call at a time decide about the RuntimeClass: one for a pool that is the last to lose the runtime must
	// not miss one for another pool that gets it.
	mu sync.Mutex
}

var (
	_ extension.Actuator[*extensionsv1alpha1.ContainerRuntime]  = &Actuator{}
	_ extension.Validator[*extensionsv1alpha1.ContainerRuntime] = &Actuator{}
)

// Validate refuses a configuration: there is nothing to configure.
func (a *Actuator) Validate(
	_ context.Context, o *extensionsv1alpha1.ContainerRuntime, _ *extension.Cluster,
) field.ErrorList {
	if o.Spec.ProviderConfig == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "providerConfig"), "gvisor has no configuration")}
}

// Reconcile hands the RuntimeClass to the Shoot's resource-manager.
func (a *Actuator) Reconcile(
	ctx context.Context, o *extensionsv1alpha1.ContainerRuntime, _ *extension.Cluster,
) (extension.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mr := &resourcesv1alpha1.ManagedResource{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: managedResource}, mr)
	if client.IgnoreNotFound(err) != nil {
		return extension.Result{}, fmt.Errorf("read managed resource %q: %w", managedResource, err)
	}
	if err == nil && !mr.DeletionTimestamp.IsZero() { // No other pool had the runtime.
		return extension.Waiting("The RuntimeClass is being deleted before it can be created again", recheck), nil
	}
	return extension.Done(), managedresource.Apply(ctx, a.Client, a.Client.Scheme(), managedresource.Set{
		Namespace: o.Namespace, Name: managedResource, Objects: []client.Object{RuntimeClass()},
	})
}

// RuntimeClass lets pods request the runtime, and schedules them to nodes that have it.
func RuntimeClass() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: Type},
		Handler:    Handler,
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{corev1beta1.LabelPrefixWorkerContainerRuntime + Type: "true"},
		},
	}
}

// Restore does what Reconcile does.
func (a *Actuator) Restore(
	ctx context.Context, o *extensionsv1alpha1.ContainerRuntime, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, o, cluster)
}

// Migrate has nothing to stop. The ManagedResource stays until the gardenlet drops it: the resource-manager of a
// hibernated Shoot would not release it.
func (a *Actuator) Migrate(
	context.Context, *extensionsv1alpha1.ContainerRuntime, *extension.Cluster,
) (extension.Result, error) {
	return extension.Done(), nil
}

// Delete removes the RuntimeClass from the Shoot, unless another pool still has the runtime.
func (a *Actuator) Delete(
	ctx context.Context, o *extensionsv1alpha1.ContainerRuntime, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, o, false)
}

// ForceDelete leaves the RuntimeClass to the user.
func (a *Actuator) ForceDelete(
	ctx context.Context, o *extensionsv1alpha1.ContainerRuntime, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, o, true)
}

func (a *Actuator) remove(
	ctx context.Context, o *extensionsv1alpha1.ContainerRuntime, keep bool,
) (extension.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &extensionsv1alpha1.ContainerRuntimeList{}
	if err := a.Client.List(ctx, list, client.InNamespace(o.Namespace)); err != nil {
		return extension.Result{}, fmt.Errorf("list ContainerRuntimes: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.Type == Type && other.DeletionTimestamp.IsZero() {
			return extension.Done(), nil
		}
	}
	gone, err := managedresource.Delete(ctx, a.Client, o.Namespace, managedResource, keep)
	if err != nil {
		return extension.Result{}, err
	}
	if !gone {
		return extension.Waiting("The RuntimeClass is being removed from the Shoot", recheck), nil
	}
	return extension.Done(), nil
}
