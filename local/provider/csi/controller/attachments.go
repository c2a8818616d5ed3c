package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/csi"
)

const (
	// finalizerAttachment keeps a VolumeAttachment until the volume is detached.
	finalizerAttachment = "local.provider.hortus.dev/attachment"
	// annotationVolume and annotationInstance are the cloud's IDs of the volume and the instance of a VolumeAttachment.
	// They are written before the volume is attached, since the objects they were read from may be gone when it is to
	// be detached.
	annotationVolume   = "local.provider.hortus.dev/volume"
	annotationInstance = "local.provider.hortus.dev/instance"
)

// errStale means that the object has been changed since the cache has seen it.
var errStale = errors.New("the object in the cache is not the newest")

// Attachments attaches volumes to the instances of nodes, and detaches them.
type Attachments struct {
	Client client.Client
	Cloud  Volumes
	Clock  clock.PassiveClock
	Events *Events
}

// SetupWithManager registers the reconciler.
func (r *Attachments) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("volumeattachment").For(&storagev1.VolumeAttachment{}).
		WatchesRawSource(r.Events.Source(r.concernedBy)).
		Complete(reconcile.AsReconciler(r.Client, r))
}

// concernedBy names the VolumeAttachments of a volume or an instance; an empty ID stands for all.
func (r *Attachments) concernedBy(ctx context.Context, id string) []reconcile.Request {
	list := &storagev1.VolumeAttachmentList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil // The cache only fails before it has started, and then everything is queued anyway.
	}
	var out []reconcile.Request
	for i := range list.Items {
		a := list.Items[i].Annotations
		if id == "" || a[annotationVolume] == id || a[annotationInstance] == id {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// Reconcile attaches or detaches the volume of one VolumeAttachment.
func (r *Attachments) Reconcile(ctx context.Context, va *storagev1.VolumeAttachment) (reconcile.Result, error) {
	if va.Spec.Attacher != csi.Driver || va.Spec.Source.PersistentVolumeName == nil {
		return reconcile.Result{}, nil
	}
	if !va.DeletionTimestamp.IsZero() {
		return r.detach(ctx, va)
	}
	if lost, err := r.lost(ctx, va); err != nil || lost {
		return reconcile.Result{}, err
	}
	if va.Status.Attached {
		return reconcile.Result{}, nil
	}
	volume, err := r.attach(ctx, va)
	before := va.DeepCopy()
	switch {
	case errors.Is(err, errStale):
		return reconcile.Result{}, nil // The event of the newer one leads here again.
	case cloud.CodeOf(err) == cloud.CodeDependency: // Another node still uses the volume. Its detachment is an event.
		va.Status.AttachError = r.report(err)
		return reconcile.Result{RequeueAfter: rewatch}, r.patchStatus(ctx, va, before)
	case err != nil:
		va.Status.AttachError = r.report(err)
		return reconcile.Result{}, errors.Join(fmt.Errorf("attach volume: %w", err), r.patchStatus(ctx, va, before))
	case volume.State != cloud.StateAttached:
		return reconcile.Result{RequeueAfter: settle}, nil
	}
	va.Status.Attached, va.Status.AttachError = true, nil
	return reconcile.Result{}, r.patchStatus(ctx, va, before)
}

// lost deletes a VolumeAttachment whose instance is gone: nothing has the volume mounted there. Kubernetes itself would
// wait for minutes, in case the node comes back.
func (r *Attachments) lost(ctx context.Context, va *storagev1.VolumeAttachment) (bool, error) {
	instance := va.Annotations[annotationInstance]
	if instance == "" {
		return false, nil
	}
	if _, err := r.Cloud.GetInstance(ctx, instance); !cloud.IsNotFound(err) {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("Deleting attachment to a missing instance", "instance", instance, "node", va.Spec.NodeName)
	if err := deleteNewest(ctx, r.Client, va); err != nil {
		return false, fmt.Errorf("delete VolumeAttachment %q: %w", va.Name, err)
	}
	return true, nil
}

// attach requests the attachment of the volume from the cloud, after it has recorded volume and instance in
// annotations.
func (r *Attachments) attach(ctx context.Context, va *storagev1.VolumeAttachment) (*cloud.Volume, error) {
	volume, instance, err := r.target(ctx, va)
	if err != nil {
		return nil, err
	}
	before := va.DeepCopy()
	controllerutil.AddFinalizer(va, finalizerAttachment)
	metav1.SetMetaDataAnnotation(&va.ObjectMeta, annotationVolume, volume)
	metav1.SetMetaDataAnnotation(&va.ObjectMeta, annotationInstance, instance)
	if !slices.Equal(before.Finalizers, va.Finalizers) || before.Annotations[annotationVolume] != volume ||
		before.Annotations[annotationInstance] != instance {
		newest, err := patchNewest(ctx, r.Client, va, before)
		if err != nil {
			return nil, fmt.Errorf("note volume and instance: %w", err)
		}
		if !newest {
			return nil, errStale
		}
	}
	ctrl.LoggerFrom(ctx).Info("Attaching volume", "volume", volume, "instance", instance, "node", va.Spec.NodeName)
	return r.Cloud.AttachVolume(ctx, volume, instance)
}

// target returns the volume to attach and the instance to attach it to.
func (r *Attachments) target(ctx context.Context, va *storagev1.VolumeAttachment) (volume, instance string, err error) {
	pv := &corev1.PersistentVolume{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: *va.Spec.Source.PersistentVolumeName}, pv); err != nil {
		return "", "", fmt.Errorf("read PersistentVolume: %w", err)
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != csi.Driver {
		return "", "", fmt.Errorf("PersistentVolume %q is not of driver %s", pv.Name, csi.Driver)
	}
	if !pv.DeletionTimestamp.IsZero() {
		return "", "", fmt.Errorf("PersistentVolume %q is being deleted", pv.Name)
	}
	node := &storagev1.CSINode{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: va.Spec.NodeName}, node); err != nil {
		return "", "", fmt.Errorf("read CSINode: %w", err)
	}
	for _, d := range node.Spec.Drivers {
		if d.Name == csi.Driver {
			return pv.Spec.CSI.VolumeHandle, d.NodeID, nil
		}
	}
	return "", "", fmt.Errorf("driver %s is not registered on node %q", csi.Driver, va.Spec.NodeName)
}

// detach detaches the volume, and keeps the finalizer until it is.
func (r *Attachments) detach(ctx context.Context, va *storagev1.VolumeAttachment) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(va, finalizerAttachment) {
		return reconcile.Result{}, nil
	}
	before := va.DeepCopy()
	volume, instance := va.Annotations[annotationVolume], va.Annotations[annotationInstance]
	ctrl.LoggerFrom(ctx).Info("Detaching volume", "volume", volume, "instance", instance, "node", va.Spec.NodeName)
	now, err := r.Cloud.DetachVolume(ctx, volume, instance)
	switch {
	case cloud.IgnoreNotFound(err) != nil:
		va.Status.DetachError = r.report(err)
		return reconcile.Result{}, errors.Join(fmt.Errorf("detach volume: %w", err), r.patchStatus(ctx, va, before))
	case err == nil && now.InstanceID == instance:
		return reconcile.Result{RequeueAfter: settle}, nil
	}
	controllerutil.RemoveFinalizer(va, finalizerAttachment)
	if err := client.IgnoreNotFound(patch(ctx, r.Client, va, before)); err != nil {
		return reconcile.Result{}, fmt.Errorf("remove finalizer from VolumeAttachment %q: %w", va.Name, err)
	}
	return reconcile.Result{}, nil
}

func (r *Attachments) report(err error) *storagev1.VolumeError {
	return &storagev1.VolumeError{Time: metav1.NewTime(r.Clock.Now()), Message: err.Error()}
}

func (r *Attachments) patchStatus(ctx context.Context, va, before *storagev1.VolumeAttachment) error {
	// The time of an error alone is no change: the update would bring the next attempt at once.
	if sameError(before.Status.AttachError, va.Status.AttachError) &&
		sameError(before.Status.DetachError, va.Status.DetachError) &&
		before.Status.Attached == va.Status.Attached {
		return nil
	}
	// An error that the cache has not seen yet would stay.
	err := r.Client.Status().Patch(ctx, va, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err := ignoreStale(err); err != nil {
		return fmt.Errorf("patch status of VolumeAttachment %q: %w", va.Name, err)
	}
	return nil
}

func sameError(a, b *storagev1.VolumeError) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Message == b.Message)
}
