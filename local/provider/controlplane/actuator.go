// Package controlplane acts on ControlPlanes: it runs the cloud controller of a Shoot and gives the Shoot a
// StorageClass.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/managedresource"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/local/provider/cloudcontroller"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

const (
	deployment = "cloud-controller-manager"
	apiServer  = "kube-apiserver"

	managedResourceShoot   = "extension-controlplane-shoot"
	managedResourceStorage = "extension-controlplane-storageclasses"

	fieldOwner = "provider-local"
	recheck    = 2 * time.Second
)

// Actuator acts on ControlPlanes.
type Actuator struct {
	Client client.Client
	Image  string // Of what it deploys.
}

var (
	_ extension.Actuator[*extensionsv1alpha1.ControlPlane]  = &Actuator{}
	_ extension.Validator[*extensionsv1alpha1.ControlPlane] = &Actuator{}
	_ extension.Follower[*extensionsv1alpha1.ControlPlane]  = &Actuator{}
)

// Watch makes the API server's start and end call the Actuator. Changes of the cloud controller do it, too, since the
// cache may see the last of them after the API server's.
func (a *Actuator) Watch(b *builder.Builder) *builder.Builder {
	compared := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetName() == apiServer || obj.GetName() == deployment
	})
	return b.Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(controlPlanesOf(a.Client)),
		builder.WithPredicates(compared))
}

// Validate checks the provider's configuration.
func (a *Actuator) Validate(
	_ context.Context, cp *extensionsv1alpha1.ControlPlane, _ *extension.Cluster,
) field.ErrorList {
	if err := v1alpha1.Decode(cp.Spec.ProviderConfig, "ControlPlaneConfig", &v1alpha1.ControlPlaneConfig{}); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "providerConfig"), "<config>", err.Error())}
	}
	return nil
}

// exposure reports whether the object has the purpose exposure: here the gardenlet's gateway exposes the API server.
func exposure(cp *extensionsv1alpha1.ControlPlane) bool {
	return cp.Spec.Purpose != nil && *cp.Spec.Purpose == extensionsv1alpha1.ControlPlanePurposeExposure
}

// Reconcile deploys the cloud controller, and hands its rights and the StorageClass to the Shoot.
func (a *Actuator) Reconcile(
	ctx context.Context, cp *extensionsv1alpha1.ControlPlane, cluster *extension.Cluster,
) (extension.Result, error) {
	if exposure(cp) {
		return extension.Done(), nil
	}
	cfg := &v1alpha1.ControlPlaneConfig{}
	if err := v1alpha1.Decode(cp.Spec.ProviderConfig, "ControlPlaneConfig", cfg); err != nil {
		return extension.Result{}, err
	}
	kubeconfig := cluster.Object.Annotations[extensionsv1alpha1.AnnotationGenericTokenKubeconfig]
	if kubeconfig == "" {
		return extension.Result{}, errors.New("the cluster does not name the kubeconfig of its components")
	}
	if err := a.applyAccess(ctx, cp.Namespace); err != nil {
		return extension.Result{}, err
	}
	if err := managedresource.Apply(ctx, a.Client, a.Client.Scheme(), managedresource.Set{
		Namespace: cp.Namespace, Name: managedResourceShoot, Objects: cloudcontroller.ShootAccess(),
	}); err != nil {
		return extension.Result{}, err
	}
	settled, err := a.applyStorage(ctx, cp.Namespace, cfg.Storage.Disabled)
	if err != nil {
		return extension.Result{}, err
	}
	runs, err := a.apiServerRuns(ctx, cp.Namespace)
	if err != nil {
		return extension.Result{}, err
	}
	replicas := int32(1)
	if asleep(cluster, runs) {
		replicas = 0
	}
	if err := kube.Apply(ctx, a.Client, cloudcontroller.ShootDeployment(cloudcontroller.Values{
		Namespace: cp.Namespace, Image: a.Image, Replicas: replicas, KubeconfigSecret: kubeconfig,
		CredentialsSecret: cp.Spec.SecretRef.Name,
	}), fieldOwner); err != nil {
		return extension.Result{}, err
	}
	if !settled && replicas > 0 { // Without API server, nothing is removed; the wake-up brings the next request.
		return waitingForRemoval(managedResourceStorage), nil
	}
	return extension.Done(), nil
}

// applyStorage passes the StorageClass and the driver to the Shoot, or removes them. It reports false while they are
// being removed: what is applied then would be removed, too.
func (a *Actuator) applyStorage(ctx context.Context, namespace string, disabled bool) (settled bool, err error) {
	if disabled {
		return managedresource.Delete(ctx, a.Client, namespace, managedResourceStorage, false)
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	err = a.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: managedResourceStorage}, mr)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read managed resource %q: %w", managedResourceStorage, err)
	}
	if !mr.DeletionTimestamp.IsZero() {
		return false, nil
	}
	return true, managedresource.Apply(ctx, a.Client, a.Client.Scheme(), managedresource.Set{
		Namespace: namespace, Name: managedResourceStorage, Objects: csi.Objects(a.Image),
	})
}

func waitingForRemoval(managedResource string) extension.Result {
	return extension.Waiting(fmt.Sprintf("Managed resource %q is being deleted", managedResource), recheck)
}

// asleep reports whether the cloud controller has nothing to do. A Shoot that is being hibernated needs it until first
// its machines and then its API server are gone, since a drain waits for volumes to be detached.
func asleep(cluster *extension.Cluster, apiServerRuns bool) bool {
	return cluster.Hibernated() && !apiServerRuns
}

func (a *Actuator) apiServerRuns(ctx context.Context, namespace string) (bool, error) {
	replicas, err := a.replicas(ctx, namespace, apiServer)
	return replicas > 0, err
}

// replicas returns the desired replicas of a Deployment, 0 if there is none.
func (a *Actuator) replicas(ctx context.Context, namespace, name string) (int32, error) {
	d := &appsv1.Deployment{}
	if err := a.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); apierrors.IsNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("read deployment %q: %w", name, err)
	}
	return ptr.Deref(d.Spec.Replicas, 1), nil
}

// FollowUp implements [extension.Follower]: the API server of a hibernated Shoot was stopped, or started for the
// Shoot's deletion.
func (a *Actuator) FollowUp(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) (bool, error) {
	if exposure(cp) || !cp.DeletionTimestamp.IsZero() || cp.Status.LastOperation == nil {
		return false, nil
	}
	runs, err := a.apiServerRuns(ctx, cp.Namespace)
	if err != nil {
		return false, err
	}
	replicas, err := a.replicas(ctx, cp.Namespace, deployment)
	if err != nil || runs == (replicas > 0) { // The usual case.
		return false, err
	}
	cluster, err := extension.GetCluster(ctx, a.Client, cp.Namespace)
	if err != nil {
		return false, err
	}
	return asleep(cluster, runs) != (replicas == 0), nil
}

// applyAccess requests a token of the Shoot from the resource-manager.
func (a *Actuator) applyAccess(ctx context.Context, namespace string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cloudcontroller.AccessSecret}}
	_, err := controllerutil.CreateOrPatch(ctx, a.Client, secret, func() error {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, resourcesv1alpha1.LabelPurpose, resourcesv1alpha1.PurposeTokenRequestor)
		metav1.SetMetaDataLabel(&secret.ObjectMeta, resourcesv1alpha1.LabelClass, "shoot")
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, resourcesv1alpha1.AnnotationServiceAccountName, deployment)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, resourcesv1alpha1.AnnotationServiceAccountNamespace,
			metav1.NamespaceSystem)
		return nil
	})
	if err != nil {
		return fmt.Errorf("apply secret %q: %w", secret.Name, err)
	}
	return nil
}

// Restore does what Reconcile does.
func (a *Actuator) Restore(
	ctx context.Context, cp *extensionsv1alpha1.ControlPlane, cluster *extension.Cluster,
) (extension.Result, error) {
	return a.Reconcile(ctx, cp, cluster)
}

// Migrate stops the cloud controller and leaves the Shoot's load balancers and objects alone. The ManagedResources stay
// until the gardenlet drops them: the resource-manager of a hibernated Shoot would not release them.
func (a *Actuator) Migrate(
	ctx context.Context, cp *extensionsv1alpha1.ControlPlane, _ *extension.Cluster,
) (extension.Result, error) {
	if exposure(cp) {
		return extension.Done(), nil
	}
	return extension.Done(), a.stop(ctx, cp)
}

// Delete removes everything. The Services of the Shoot are gone by now, and their load balancers with them.
func (a *Actuator) Delete(
	ctx context.Context, cp *extensionsv1alpha1.ControlPlane, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, cp, false)
}

// ForceDelete removes what is in the seed.
func (a *Actuator) ForceDelete(
	ctx context.Context, cp *extensionsv1alpha1.ControlPlane, _ *extension.Cluster,
) (extension.Result, error) {
	return a.remove(ctx, cp, true)
}

func (a *Actuator) remove(
	ctx context.Context, cp *extensionsv1alpha1.ControlPlane, keep bool,
) (extension.Result, error) {
	if exposure(cp) {
		return extension.Done(), nil
	}
	if err := a.stop(ctx, cp); err != nil {
		return extension.Result{}, err
	}
	for _, name := range []string{managedResourceStorage, managedResourceShoot} {
		gone, err := managedresource.Delete(ctx, a.Client, cp.Namespace, name, keep)
		if err != nil {
			return extension.Result{}, err
		}
		if !gone {
			return waitingForRemoval(name), nil
		}
	}
	return extension.Done(), nil
}

// stop removes the cloud controller.
func (a *Actuator) stop(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) error {
	for _, obj := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: deployment}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: cloudcontroller.AccessSecret}},
	} {
		if err := a.Client.Delete(ctx, obj,
			client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %T %q: %w", obj, obj.GetName(), err)
		}
	}
	return nil
}
