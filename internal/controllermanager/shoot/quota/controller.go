// Package quota deletes Shoots whose lifetime, bounded by a quota, has expired.
package quota

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

// Name of the controller.
const Name = "shoot-quota"

// DefaultSyncPeriod is how often quotas are read again. Lifetimes are in days.
const DefaultSyncPeriod = time.Hour

// Reconciler maintains the expiration annotation and deletes Shoots that have expired.
type Reconciler struct {
	Garden     client.Client
	Live       client.Reader // Reads the quotas again before a deletion, which cannot be undone.
	Clock      clock.PassiveClock
	SyncPeriod time.Duration
}

// Reconcile records when the Shoot's lifetime ends, and deletes the Shoot when it has ended.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	if shoot.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	quotas, err := quotasOf(ctx, r.Garden, shoot)
	if err != nil {
		return reconcile.Result{}, err
	}
	days, bounded := lifetime(quotas)
	before := shoot.DeepCopy()
	expiration, changed := expire(shoot, days, bounded)
	if changed {
		if err := r.Garden.Patch(ctx, shoot, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("set the expiration: %w", err)
		}
	}
	left := expiration.Sub(r.Clock.Now())
	switch {
	case !bounded:
		return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil
	case left > 0:
		return reconcile.Result{RequeueAfter: min(left, r.SyncPeriod)}, nil
	}
	if quotas, err = quotasOf(ctx, r.Live, shoot); err != nil {
		return reconcile.Result{}, err
	}
	if _, bounded := lifetime(quotas); !bounded {
		return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil
	}
	log.FromContext(ctx).Info("Deleting Shoot whose lifetime has expired", "expiration", expiration)
	// Only exactly this Shoot: its owner may have extended its lifetime since, or created another one.
	before = shoot.DeepCopy()
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, corev1beta1.AnnotationConfirmationDeletion, "true")
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Garden.Patch(ctx, shoot, patch); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("confirm the deletion: %w", err)
	}
	exactly := client.Preconditions{UID: &shoot.UID, ResourceVersion: &shoot.ResourceVersion}
	if err := r.Garden.Delete(ctx, shoot, exactly); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("delete Shoot: %w", err)
	}
	return reconcile.Result{}, nil
}

// expire sets the expiration annotation of the Shoot, in place, or removes it if no quota bounds the lifetime. A valid
// date stays: its owner may have extended the lifetime as far as admission allows.
func expire(shoot *corev1beta1.Shoot, days int32, bounded bool) (expiration time.Time, changed bool) {
	text, present := shoot.Annotations[corev1beta1.AnnotationShootExpirationTimestamp]
	if !bounded {
		delete(shoot.Annotations, corev1beta1.AnnotationShootExpirationTimestamp)
		return time.Time{}, present
	}
	if present {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t, false
		}
	}
	expiration = shoot.CreationTimestamp.AddDate(0, 0, int(days))
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, corev1beta1.AnnotationShootExpirationTimestamp,
		expiration.UTC().Format(time.RFC3339))
	return expiration, true
}

// lifetime returns the shortest lifetime that any of the quotas allows, in days.
func lifetime(quotas []*corev1beta1.Quota) (days int32, bounded bool) {
	for _, q := range quotas {
		if d := q.Spec.ClusterLifetimeDays; d != nil && (!bounded || *d < days) {
			days, bounded = *d, true
		}
	}
	return days, bounded
}

// quotasOf reads the quotas of the Shoot's binding. A Shoot without a binding has none.
func quotasOf(ctx context.Context, reader client.Reader, shoot *corev1beta1.Shoot) ([]*corev1beta1.Quota, error) {
	var refs []corev1.ObjectReference
	switch {
	case shoot.Spec.CredentialsBindingName != nil:
		binding := &securityv1alpha1.CredentialsBinding{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: *shoot.Spec.CredentialsBindingName},
			binding); err != nil {
			return nil, fmt.Errorf("get CredentialsBinding: %w", err)
		}
		refs = binding.Quotas
	case shoot.Spec.SecretBindingName != nil:
		binding := &corev1beta1.SecretBinding{}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: *shoot.Spec.SecretBindingName},
			binding); err != nil {
			return nil, fmt.Errorf("get SecretBinding: %w", err)
		}
		refs = binding.Quotas
	}
	var quotas []*corev1beta1.Quota
	for _, ref := range refs {
		quota := &corev1beta1.Quota{}
		key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
		if key.Namespace == "" {
			key.Namespace = shoot.Namespace
		}
		if err := reader.Get(ctx, key, quota); err != nil {
			return nil, fmt.Errorf("get Quota %s: %w", key, err)
		}
		quotas = append(quotas, quota)
	}
	return quotas, nil
}

// AddToManager adds the controller to the manager.
func (r *Reconciler) AddToManager(mgr manager.Manager, concurrentSyncs int) error {
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&corev1beta1.Shoot{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return true },
			UpdateFunc: func(e event.UpdateEvent) bool {
				before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
				const key = corev1beta1.AnnotationShootExpirationTimestamp
				return before[key] != after[key]
			},
			DeleteFunc:  func(event.DeleteEvent) bool { return false },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentSyncs}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", Name, err)
	}
	return nil
}
