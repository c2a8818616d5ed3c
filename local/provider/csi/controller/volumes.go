package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
)

// PersistentVolumes deletes the volumes that are no longer needed.
type PersistentVolumes struct {
	Client client.Client
	Cloud  Volumes
	Events *Events
}

// SetupWithManager registers the reconciler.
func (r *PersistentVolumes) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("persistentvolume").For(&corev1.PersistentVolume{}).
		WatchesRawSource(r.Events.Source(r.concernedBy)).
		Complete(reconcile.AsReconciler(r.Client, r))
}

// concernedBy names the PersistentVolume of a volume; an empty ID stands for all.
func (r *PersistentVolumes) concernedBy(ctx context.Context, volumeID string) []reconcile.Request {
	list := &corev1.PersistentVolumeList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil // The cache only fails before it has started, and then everything is queued anyway.
	}
	var out []reconcile.Request
	for i := range list.Items {
		if source := list.Items[i].Spec.CSI; source != nil && (volumeID == "" || source.VolumeHandle == volumeID) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// Reconcile takes the next step for one PersistentVolume that is no longer needed.
func (r *PersistentVolumes) Reconcile(ctx context.Context, pv *corev1.PersistentVolume) (reconcile.Result, error) {
	step, finalizer := next(pv)
	log := ctrl.LoggerFrom(ctx)
	switch step {
	case stepDelete:
		log.Info("Deleting released PersistentVolume")
		if err := deleteNewest(ctx, r.Client, pv); err != nil { // Its reclaim policy may have been changed.
			return reconcile.Result{}, fmt.Errorf("delete PersistentVolume %q: %w", pv.Name, err)
		}
	case stepDestroy:
		gone, err := r.destroy(ctx, pv)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("delete volume of PersistentVolume %q: %w", pv.Name, err)
		}
		if !gone {
			return reconcile.Result{RequeueAfter: settle}, nil
		}
		return reconcile.Result{}, r.forget(ctx, pv, finalizer)
	case stepForget:
		log.Info("Leaving what is behind a PersistentVolume", "reclaimPolicy", pv.Spec.PersistentVolumeReclaimPolicy)
		return reconcile.Result{}, r.forget(ctx, pv, finalizer)
	}
	return reconcile.Result{}, nil
}

// destroy deletes the volume of a PersistentVolume and reports whether it is gone. While it is attached the cloud
// refuses; its detachment is an event.
func (r *PersistentVolumes) destroy(ctx context.Context, pv *corev1.PersistentVolume) (gone bool, err error) {
	id := pv.Spec.CSI.VolumeHandle
	volume, err := r.Cloud.GetVolume(ctx, id)
	switch {
	case cloud.IsNotFound(err):
		return true, nil
	case err != nil || volume.State == cloud.StateTerminating || volume.InstanceID != "":
		return false, err
	}
	// The reclaim policy may be another one since, and data do not come back.
	if newest, err := patchNewest(ctx, r.Client, pv, pv.DeepCopy()); err != nil || !newest {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("Deleting volume", "volume", id)
	if err := r.Cloud.DeleteVolume(ctx, id); cloud.IgnoreNotFound(err) != nil &&
		cloud.CodeOf(err) != cloud.CodeDependency {
		return false, err
	}
	return false, nil
}

func (r *PersistentVolumes) forget(ctx context.Context, pv *corev1.PersistentVolume, finalizer string) error {
	before := pv.DeepCopy()
	controllerutil.RemoveFinalizer(pv, finalizer)
	if err := client.IgnoreNotFound(patch(ctx, r.Client, pv, before)); err != nil {
		return fmt.Errorf("remove finalizer from PersistentVolume %q: %w", pv.Name, err)
	}
	return nil
}
