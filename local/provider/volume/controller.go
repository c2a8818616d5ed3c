package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Node describes the node that both reconcilers run on.
type Node struct {
	Client   client.Client
	Recorder events.EventRecorder
	NodeName string // Name of the Node object.
	Hostname string // Value of its label kubernetes.io/hostname.
	Root     string // Directory of all volumes, on the node.
	Dir      string // The same directory as the process sees it.
}

// Claims makes volumes for claims the scheduler has placed on the node.
type Claims struct{ Node }

// Volumes removes the volumes of the node that are no longer needed.
type Volumes struct{ Node }

// SetupWithManager registers both reconcilers.
func SetupWithManager(mgr ctrl.Manager, node Node) error {
	claims, volumes := &Claims{node}, &Volumes{node}
	if err := ctrl.NewControllerManagedBy(mgr).Named("claim").For(&corev1.PersistentVolumeClaim{}).
		Complete(reconcile.AsReconciler(node.Client, claims)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("volume").For(&corev1.PersistentVolume{}).
		Complete(reconcile.AsReconciler(node.Client, volumes))
}

// Reconcile makes the volume for one claim.
func (r *Claims) Reconcile(ctx context.Context, claim *corev1.PersistentVolumeClaim) (reconcile.Result, error) {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" ||
		claim.Annotations[annotationSelectedNode] != r.NodeName {
		return reconcile.Result{}, nil
	}
	class := &storagev1.StorageClass{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !serves(claim, class, r.NodeName) {
		return reconcile.Result{}, nil
	}
	if reason := unsupported(claim); reason != "" {
		r.Recorder.Eventf(claim, nil, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "%s", reason)
		return reconcile.Result{}, nil
	}
	if err := r.ensureDirectory(volumeName(claim)); err != nil {
		return reconcile.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("Creating volume", "volume", volumeName(claim))
	err := r.Client.Create(ctx, desiredVolume(claim, class, r.Root, r.Hostname))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, fmt.Errorf("create volume for claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return reconcile.Result{}, nil
}

// ensureDirectory makes the directory of a volume, unless it is there.
func (n *Node) ensureDirectory(volume string) error {
	path := filepath.Join(n.Dir, volume)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return fmt.Errorf("make directory of volume %q: %w", volume, err)
	}
	// The process' umask must not keep the pods' users out.
	if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // Any pod user may write, as on a new disk.
		return fmt.Errorf("open directory of volume %q: %w", volume, err)
	}
	return nil
}

// Reconcile removes one volume when it is released or deleted: first the directory, then the object. A volume whose
// node has lost its disk is an empty one from then on.
func (r *Volumes) Reconcile(ctx context.Context, pv *corev1.PersistentVolume) (reconcile.Result, error) {
	if !removable(pv, r.Hostname) {
		if own(pv, r.Hostname) {
			return reconcile.Result{}, r.ensureDirectory(pv.Name)
		}
		return reconcile.Result{}, nil
	}
	if pv.DeletionTimestamp.IsZero() {
		ctrl.LoggerFrom(ctx).Info("Deleting released volume")
		if err := r.Client.Delete(ctx, pv, client.Preconditions{UID: &pv.UID}); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		return reconcile.Result{}, nil // The update with the deletion timestamp triggers the next reconciliation.
	}
	if !controllerutil.ContainsFinalizer(pv, finalizer) || len(pv.Finalizers) > 1 {
		return reconcile.Result{}, nil // Kubernetes removes its own finalizer when no pod uses the volume any longer.
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		if err := os.RemoveAll(filepath.Join(r.Dir, filepath.Base(pv.Spec.HostPath.Path))); err != nil {
			return reconcile.Result{}, fmt.Errorf("remove directory of volume %q: %w", pv.Name, err)
		}
	}
	before := pv.DeepCopy()
	controllerutil.RemoveFinalizer(pv, finalizer)
	if err := r.Client.Patch(ctx, pv,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove finalizer from volume %q: %w", pv.Name, err)
	}
	return reconcile.Result{}, nil
}
