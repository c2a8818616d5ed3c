package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/errorcode"
	"hortus.dev/hortus/extension/managedresource"
)

const (
	// extensionType is what Shoots write into spec.extensions[].type. The gardenlet names Extensions by it.
	extensionType = "notice"
	// resourceName is the ManagedResource in the namespace of a control plane.
	resourceName = "extension-notice"
	// recheck is how long to wait at most for the resource-manager, whose changes are watched.
	recheck = 10 * time.Second
)

// actuator shows a message to everybody who uses a Shoot. It has nothing outside the Shoot, and no state.
type actuator struct {
	seed client.Client
}

// Validate says what is wrong with the providerConfig. The Shoot gets the code ERR_CONFIGURATION_PROBLEM.
func (a *actuator) Validate(
	_ context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) field.ErrorList {
	if _, err := decode(e.Spec.ProviderConfig); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "providerConfig"), field.OmitValueType{}, err.Error())}
	}
	return nil
}

// Reconcile hands the message to the resource-manager, which puts it into the Shoot and keeps it there.
func (a *actuator) Reconcile(
	ctx context.Context, e *extensionsv1alpha1.Extension, cluster *extension.Cluster,
) (extension.Result, error) {
	message, err := decode(e.Spec.ProviderConfig)
	if err != nil {
		return extension.Result{}, err
	}
	shown, err := text(message, cluster)
	if err != nil { // Only the owner of the Shoot can help.
		return extension.Result{}, errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
	}
	if err := managedresource.Apply(ctx, a.seed, a.seed.Scheme(), managedresource.Set{
		Namespace: e.Namespace, Name: resourceName, Objects: objects(shown),
	}); err != nil {
		return extension.Result{}, err
	}
	applied := &resourcesv1alpha1.ManagedResource{}
	if err := a.seed.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: resourceName}, applied); err != nil {
		if client.IgnoreNotFound(err) == nil { // The cache does not know it yet.
			return extension.Waiting("The message has not been applied yet.", recheck), nil
		}
		return extension.Result{}, fmt.Errorf("read managed resource %q: %w", resourceName, err)
	}
	if problem := managedresource.Problem(applied); problem != "" {
		return extension.Waiting(problem, recheck), nil
	}
	return extension.Done(), nil
}

// Restore is Reconcile, since there is no state.
func (a *actuator) Restore(
	ctx context.Context, e *extensionsv1alpha1.Extension, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, e, cluster)
}

// Migrate leaves the message in the Shoot, whose control plane moves to another seed.
func (a *actuator) Migrate(
	ctx context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, e, true)
}

// Delete takes the message away.
func (a *actuator) Delete(
	ctx context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, e, false)
}

// ForceDelete does not wait for the Shoot's API server, which is about to be deleted, too.
func (a *actuator) ForceDelete(
	ctx context.Context, e *extensionsv1alpha1.Extension, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, e, true)
}

func (a *actuator) remove(ctx context.Context, e *extensionsv1alpha1.Extension, keep bool) (extension.Result, error) {
	gone, err := managedresource.Delete(ctx, a.seed, e.Namespace, resourceName, keep)
	if err != nil || gone {
		return extension.Done(), err
	}
	return extension.Waiting("The message is being removed.", recheck), nil
}

// watch makes changes of the ManagedResource continue what waits for it.
func watch(b *builder.Builder) *builder.Builder {
	return b.Watches(&resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(extensionOf))
}

// extensionOf names the Extension in the namespace of an object.
func extensionOf(_ context.Context, o client.Object) []reconcile.Request {
	if o.GetName() != resourceName {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: extensionType}}}
}
