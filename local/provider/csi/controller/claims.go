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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
)

// Claims makes volumes for claims.
type Claims struct {
	Client   client.Client
	Cloud    Volumes
	Cluster  string // Value of the tag on all volumes.
	Recorder events.EventRecorder
}

// SetupWithManager registers the reconciler.
func (r *Claims) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("claim").For(&corev1.PersistentVolumeClaim{}).
		Complete(reconcile.AsReconciler(r.Client, r))
}

// Reconcile makes the volume and the PersistentVolume for one claim. Each is found again by its name.
func (r *Claims) Reconcile(ctx context.Context, claim *corev1.PersistentVolumeClaim) (reconcile.Result, error) {
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
			return reconcile.Result{}, r.askScheduler(ctx, claim)
		} else if err != nil {
			return reconcile.Result{}, fmt.Errorf("read node %q: %w", selected, err)
		}
		if zone = node.Labels[corev1.LabelTopologyZone]; zone == "" {
			return reconcile.Result{RequeueAfter: settle}, nil // The node is new and is just being completed.
		}
	}
	volume, err := r.ensure(ctx, request(claim, r.Cluster, zone))
	if err != nil {
		r.Recorder.Eventf(claim, nil, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "%v", err)
		return reconcile.Result{}, fmt.Errorf("make volume for claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	err = r.Client.Create(ctx, desiredVolume(claim, class, volume))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, fmt.Errorf("create PersistentVolume for claim %s: %w", client.ObjectKeyFromObject(claim),
			err)
	}
	return reconcile.Result{}, nil
}

// askScheduler lets the scheduler choose another node.
func (r *Claims) askScheduler(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	before := claim.DeepCopy()
	delete(claim.Annotations, annotationSelectedNode)
	if err := client.IgnoreNotFound(patch(ctx, r.Client, claim, before)); err != nil {
		return fmt.Errorf("request another node for claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
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
