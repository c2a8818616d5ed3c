package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/v1alpha1"
)

// Claims makes volumes for claims. A claim has a finalizer from before its volume is made until it is bound: if it is
// deleted before there is a PersistentVolume, or bound to another one, the volume is deleted before the finalizer is
// removed. Afterwards, a volume that was left behind would look like one that its reclaim policy has retained.
type Claims struct {
	Client   client.Client
	Reader   client.Reader // Without a cache.
	Cloud    Volumes
	Cluster  string // Value of the tag on all volumes.
	Recorder events.EventRecorder
}

// SetupWithManager registers the reconciler.
func (r *Claims) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("claim").For(&corev1.PersistentVolumeClaim{}).
		Complete(reconcile.AsReconciler(r.Client, r))
}

// Reconcile makes the volume and the PersistentVolume for one claim, or ends an attempt to. Each is found again by its
// name.
func (r *Claims) Reconcile(ctx context.Context, claim *corev1.PersistentVolumeClaim) (reconcile.Result, error) {
	if ended(claim) {
		return reconcile.Result{}, r.finish(ctx, claim)
	}
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" || claim.Spec.VolumeName != "" {
		return reconcile.Result{}, nil
	}
	class := &storagev1.StorageClass{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !serves(claim, class) {
		return reconcile.Result{}, nil
	}
	if reason := unsupported(claim); reason != "" {
		r.Recorder.Eventf(claim, nil, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "%s", reason)
		return reconcile.Result{}, nil
	}
	zone := allowedZone(class)
	if selected := claim.Annotations[annotationSelectedNode]; selected != "" {
		node := &corev1.Node{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: selected}, node); apierrors.IsNotFound(err) {
			return reconcile.Result{}, r.returnToScheduler(ctx, claim)
		} else if err != nil {
			return reconcile.Result{}, fmt.Errorf("read node %q: %w", selected, err)
		}
		if zone = node.Labels[corev1.LabelTopologyZone]; zone == "" {
			return reconcile.Result{RequeueAfter: settle}, nil // The node is new and is just being completed.
		}
	}
	return reconcile.Result{}, r.provision(ctx, claim, class, zone)
}

// provision makes the volume and the PersistentVolume for a claim.
func (r *Claims) provision(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, zone string,
) error {
	key := client.ObjectKeyFromObject(claim)
	newest, err := r.write(ctx, claim, func() { controllerutil.AddFinalizer(claim, finalizerClaim) })
	if err != nil || !newest {
		return err
	}
	volume, err := r.ensure(ctx, request(claim, r.Cluster, zone))
	if err != nil {
		r.Recorder.Eventf(claim, nil, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "%v", err)
		return fmt.Errorf("make volume for claim %s: %w", key, err)
	}
	err = r.Client.Create(ctx, desiredVolume(claim, class, volume))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create PersistentVolume for claim %s: %w", key, err)
	}
	return nil // Its binding is an event.
}

// returnToScheduler lets the scheduler choose another node.
func (r *Claims) returnToScheduler(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	_, err := r.write(ctx, claim, func() { delete(claim.Annotations, annotationSelectedNode) })
	return err
}

// ensure finds the volume of this name or makes it. One that an earlier attempt has made stays in its zone, whichever
// node was chosen since.
func (r *Claims) ensure(ctx context.Context, in cloud.CreateVolume) (*cloud.Volume, error) {
	found, err := r.Cloud.ListVolumes(ctx, cloud.Filter{Name: in.Name})
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && found[0].State != cloud.StateTerminating {
		return &found[0], nil
	}
	ctrl.LoggerFrom(ctx).Info("Creating volume", "volume", in.Name, "zone", in.Zone)
	return r.Cloud.CreateVolume(ctx, in)
}

// finish releases a claim that needs no volume any longer, after it has deleted the volume of an unfinished attempt.
func (r *Claims) finish(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Spec.VolumeName != volumeName(claim) {
		newest, err := r.write(ctx, claim, func() {}) // A claim that was bound since may have data.
		if err != nil || !newest {
			return err
		}
		if err := r.discard(ctx, volumeName(claim)); err != nil {
			r.Recorder.Eventf(claim, nil, corev1.EventTypeWarning, "VolumeFailedDelete", "Delete", "%v", err)
			return fmt.Errorf("delete volume of claim %s: %w", client.ObjectKeyFromObject(claim), err)
		}
	}
	return r.release(ctx, claim)
}

// discard deletes the volume of this name, unless a PersistentVolume refers to it.
func (r *Claims) discard(ctx context.Context, name string) error {
	found, err := r.Cloud.ListVolumes(ctx, cloud.Filter{
		Name: name, Tags: map[string]string{v1alpha1.TagCluster: r.Cluster},
	})
	if err != nil || len(found) == 0 {
		return err
	}
	volumes := &corev1.PersistentVolumeList{}
	if err := r.Reader.List(ctx, volumes); err != nil {
		return fmt.Errorf("list PersistentVolumes: %w", err)
	}
	for _, volume := range found {
		if volume.State == cloud.StateTerminating || refersTo(volumes.Items, volume.ID) {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleting volume without PersistentVolume", "volume", volume.ID)
		if err := r.Cloud.DeleteVolume(ctx, volume.ID); cloud.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// release removes the finalizer from a claim.
func (r *Claims) release(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	_, err := r.write(ctx, claim, func() { controllerutil.RemoveFinalizer(claim, finalizerClaim) })
	return err
}

// write writes a change of a claim, even if it is none, and reports whether the claim was the newest. Otherwise nothing
// is left to do: the event of the newer one leads here again.
func (r *Claims) write(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, change func(),
) (newest bool, err error) {
	before := claim.DeepCopy()
	change()
	if newest, err = patchNewest(ctx, r.Client, claim, before); err != nil {
		return false, fmt.Errorf("patch claim %s: %w", client.ObjectKeyFromObject(before), err)
	}
	return newest, nil
}
