// Package reference prevents the deletion of objects while Shoots refer to them.
package reference

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

// Name of the controller.
const Name = "shoot-reference"

var kinds = map[Kind]schema.GroupVersionKind{
	Secret:           corev1.SchemeGroupVersion.WithKind(string(Secret)),
	ConfigMap:        corev1.SchemeGroupVersion.WithKind(string(ConfigMap)),
	WorkloadIdentity: securityv1alpha1.SchemeGroupVersion.WithKind(string(WorkloadIdentity)),
}

// Reconciler adds a finalizer to the objects that Shoots refer to, and removes it when no Shoot does any more.
type Reconciler struct {
	Garden client.Client
	// Live reads from the API server: only metadata of a namespace's objects, and only when references change.
	Live client.Reader
}

// Reconcile adds finalizers before it removes others: an interruption leaves too many objects protected, not too few.
func (r *Reconciler) Reconcile(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	refs := Of(shoot)
	if shoot.DeletionTimestamp != nil {
		if controllerutil.ContainsFinalizer(shoot, corev1beta1.FinalizerName) {
			return reconcile.Result{}, nil // The deletion still needs them.
		}
		refs = nil
	}
	if len(refs) == 0 && !controllerutil.ContainsFinalizer(shoot, corev1beta1.FinalizerReferenceProtection) {
		return reconcile.Result{}, nil
	}
	if len(refs) > 0 {
		if err := r.setFinalizer(ctx, shoot, true); err != nil {
			return reconcile.Result{}, fmt.Errorf("protect Shoot: %w", err)
		}
	}
	for _, ref := range refs {
		if err := r.protect(ctx, shoot.Namespace, ref); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.release(ctx, shoot); err != nil {
		return reconcile.Result{}, err
	}
	if len(refs) == 0 {
		if err := r.setFinalizer(ctx, shoot, false); err != nil {
			return reconcile.Result{}, fmt.Errorf("release Shoot: %w", err)
		}
	}
	return reconcile.Result{}, nil
}

// reconcileNamed also handles a Shoot that is gone. Objects that it referred to may still have the finalizer because of
// other Shoots, which have changed since.
func (r *Reconciler) reconcileNamed(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	shoot := &corev1beta1.Shoot{}
	err := r.Garden.Get(ctx, req.NamespacedName, shoot)
	switch {
	case apierrors.IsNotFound(err):
		shoot.Namespace, shoot.Name = req.Namespace, req.Name
		return reconcile.Result{}, r.release(ctx, shoot)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read Shoot %q: %w", req.NamespacedName, err)
	}
	return r.Reconcile(ctx, shoot)
}

func (r *Reconciler) protect(ctx context.Context, namespace string, ref Reference) error {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kinds[ref.Kind])
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil // Admission has rejected it; there is nothing to protect.
	}
	if err != nil {
		return fmt.Errorf("get %s %q: %w", ref.Kind, ref.Name, err)
	}
	if err := r.setFinalizer(ctx, object, true); err != nil {
		return fmt.Errorf("protect %s %q: %w", ref.Kind, ref.Name, err)
	}
	return nil
}

// release removes the finalizer from all objects of the namespace that no Shoot refers to. Shoots whose deletion no
// longer needs the objects do not count.
func (r *Reconciler) release(ctx context.Context, shoot *corev1beta1.Shoot) error {
	used, err := r.used(ctx, shoot)
	if err != nil {
		return err
	}
	for _, kind := range []Kind{Secret, ConfigMap, WorkloadIdentity} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kinds[kind].GroupVersion().WithKind(string(kind) + "List"))
		if err := r.Live.List(ctx, list, client.InNamespace(shoot.Namespace)); err != nil {
			return fmt.Errorf("list %ss: %w", kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !controllerutil.ContainsFinalizer(object, corev1beta1.FinalizerReferenceProtection) ||
				used[Reference{kind, object.Name}] {
				continue
			}
			object.SetGroupVersionKind(kinds[kind])
			log.FromContext(ctx).Info("Releasing object", "kind", kind, "name", object.Name)
			if err := r.setFinalizer(ctx, object, false); err != nil {
				return fmt.Errorf("release %s %q: %w", kind, object.Name, err)
			}
		}
	}
	return nil
}

// used returns the objects that Shoots of the namespace refer to. The cached Shoots are only read, hence not copied.
func (r *Reconciler) used(ctx context.Context, shoot *corev1beta1.Shoot) (map[Reference]bool, error) {
	var shoots corev1beta1.ShootList
	if err := r.Garden.List(ctx, &shoots, client.InNamespace(shoot.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Shoots: %w", err)
	}
	used := map[Reference]bool{}
	for i := range shoots.Items {
		other := &shoots.Items[i]
		if other.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(other, corev1beta1.FinalizerName) {
			continue
		}
		if other.Name == shoot.Name {
			other = shoot // As read for this reconciliation.
		}
		for _, ref := range Of(other) {
			used[ref] = true
		}
	}
	return used, nil
}

func (r *Reconciler) setFinalizer(ctx context.Context, object client.Object, present bool) error {
	before := object.DeepCopyObject().(client.Object)
	change := controllerutil.RemoveFinalizer
	if present {
		change = controllerutil.AddFinalizer
	}
	if !change(object, corev1beta1.FinalizerReferenceProtection) {
		return nil
	}
	// A patch replaces the whole list of finalizers, so it must fail if the list has changed since.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Garden.Patch(ctx, object, patch))
}

// AddToManager adds the controller to the manager.
func (r *Reconciler) AddToManager(mgr manager.Manager, concurrentSyncs int) error {
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&corev1beta1.Shoot{}, builder.WithPredicates(Relevant())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentSyncs}).
		Complete(reconcile.Func(r.reconcileNamed))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", Name, err)
	}
	return nil
}

// Relevant passes Shoots whose references change, and Shoots that are being deleted or are gone.
func Relevant() predicate.Predicate {
	concerned := func(shoot *corev1beta1.Shoot) bool {
		return len(Of(shoot)) > 0 || controllerutil.ContainsFinalizer(shoot, corev1beta1.FinalizerReferenceProtection)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			shoot, ok := e.Object.(*corev1beta1.Shoot)
			return ok && concerned(shoot)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1beta1.Shoot)
			after, ok2 := e.ObjectNew.(*corev1beta1.Shoot)
			return ok1 && ok2 && (!slices.Equal(Of(before), Of(after)) ||
				after.DeletionTimestamp != nil &&
					(before.DeletionTimestamp == nil || !slices.Equal(before.Finalizers, after.Finalizers)))
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			shoot, ok := e.Object.(*corev1beta1.Shoot)
			return ok && len(Of(shoot)) > 0
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
