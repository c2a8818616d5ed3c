package managedresource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// remove deletes the objects, unless they are to be kept, and gives the ManagedResource up.
func (r *Reconciler) remove(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (reconcile.Result, error) {
	if !ptr.Deref(mr.Spec.KeepObjects, false) || mr.DeletionTimestamp == nil {
		before := mr.DeepCopy()
		const message = "The resources are being deleted."
		r.set(mr, resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonDeletionPending,
			message)
		r.set(mr, resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionTrue, resourcesv1alpha1.ReasonDeletionPending,
			message)
		if err := r.patchStatus(ctx, mr, before); err != nil {
			return reconcile.Result{}, err
		}
		pending, err := r.deleteObjects(ctx, mr, mr.Status.Resources)
		if err != nil {
			r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonDeletionFailed,
				err.Error())
			return reconcile.Result{}, err
		}
		if len(pending) > 0 {
			r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionProgressing,
				resourcesv1alpha1.ReasonDeletionPending, waitingFor(pending))
			return reconcile.Result{RequeueAfter: pendingInterval}, nil
		}
	}
	r.records.forget(client.ObjectKeyFromObject(mr))
	before := mr.DeepCopy()
	mr.Status.Resources = nil
	if mr.DeletionTimestamp == nil { // The next class would delete these objects from its own target.
		if err := r.patchStatus(ctx, mr, before); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Source, mr, finalizer(r.Class))
}

// waitingFor lists a few of the objects that are still there.
func waitingFor(pending []string) string {
	const shown = 10
	more := ""
	if len(pending) > shown {
		more = fmt.Sprintf(" and %d more", len(pending)-shown)
		pending = pending[:shown]
	}
	return "Waiting for the deletion of " + strings.Join(pending, ", ") + more + "."
}

// deleteObjects deletes objects and returns those that are still there.
func (r *Reconciler) deleteObjects(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, refs []resourcesv1alpha1.ObjectReference,
) ([]string, error) {
	var mu sync.Mutex
	var pending []string
	var errs []error
	var g errgroup.Group
	g.SetLimit(cmp.Or(r.Parallel, defaultParallel))
	for _, ref := range refs {
		g.Go(func() error {
			waits, err := r.deleteOne(ctx, mr, ref)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.Metrics.changed(resultFailed)
				errs = append(errs, fmt.Errorf("delete %s: %w", fromStatus(ref), err))
			} else if waits {
				pending = append(pending, fromStatus(ref).String())
			}
			return nil
		})
	}
	_ = g.Wait()
	slices.Sort(pending)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return pending, errors.Join(errs...)
}

// gone reports that an object does not exist, or that its kind no longer does.
func gone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// deleteOne deletes an object if it is ours to delete, and reports whether it is still there.
func (r *Reconciler) deleteOne(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, ref resourcesv1alpha1.ObjectReference,
) (bool, error) {
	at := fromStatus(ref)
	key := client.ObjectKey{Namespace: at.Namespace, Name: at.Name}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(at.GroupVersionKind)
	if err := r.Target.Get(ctx, key, live); err != nil {
		if gone(err) {
			return false, nil
		}
		return false, err
	}
	if r.stays(live, ref, origin(r.ClusterID, client.ObjectKeyFromObject(mr))) {
		return false, nil
	}
	if live.GetDeletionTimestamp() != nil {
		return true, r.finalize(ctx, live)
	}
	if at.Kind == "StatefulSet" && ptr.Deref(mr.Spec.DeletePersistentVolumeClaims, false) {
		if err := r.deleteClaims(ctx, live); err != nil {
			return false, err
		}
	}
	log.FromContext(ctx).Info("Deleting object", "object", at.String())
	err := r.Target.Delete(ctx, live, propagation(at.Group), client.Preconditions{
		UID: ptr.To(live.GetUID()), ResourceVersion: ptr.To(live.GetResourceVersion()), // Nobody has taken it over since.
	})
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.Metrics.changed(resultDeleted)
	// Objects of most kinds are removed at once; reading them again spares the wait.
	after := metadata(at.GroupVersionKind)
	err = r.Target.Get(ctx, key, after)
	if err != nil && !gone(err) {
		return false, err
	}
	return err == nil, nil
}

// stays reports that an object that is no longer wanted must not be deleted.
func (r *Reconciler) stays(live *unstructured.Unstructured, ref resourcesv1alpha1.ObjectReference, origin string) bool {
	a := live.GetAnnotations()
	if isTrue(a, resourcesv1alpha1.AnnotationKeepObject) ||
		isTrue(ref.Annotations, resourcesv1alpha1.AnnotationKeepObject) {
		return true
	}
	if r.GarbageCollected && live.GetLabels()[resourcesv1alpha1.LabelGarbageCollectable] == "true" {
		return true // Pods of an earlier version may still mount it.
	}
	// Another ManagedResource has taken the object over.
	return a[resourcesv1alpha1.AnnotationOrigin] != "" && a[resourcesv1alpha1.AnnotationOrigin] != origin
}

// propagation waits for the dependents of controllers, so that a workload counts as gone when its pods are.
func propagation(group string) client.DeleteOption {
	switch group {
	case "apps", "batch", "extensions":
		return client.PropagationPolicy(metav1.DeletePropagationForeground)
	}
	return client.PropagationPolicy(metav1.DeletePropagationBackground)
}

// finalize removes the finalizers of an object that requests it after a time in deletion.
func (r *Reconciler) finalize(ctx context.Context, live *unstructured.Unstructured) error {
	after, err := time.ParseDuration(live.GetAnnotations()[resourcesv1alpha1.AnnotationFinalizeDeletionAfter])
	if err != nil || r.Clock.Since(live.GetDeletionTimestamp().Time) < after || len(live.GetFinalizers()) == 0 {
		return nil
	}
	before := live.DeepCopy()
	live.SetFinalizers(nil)
	if err := r.Target.Patch(ctx, live, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizers: %w", err)
	}
	return nil
}

// deleteClaims deletes the claims made from a StatefulSet's templates: those carry the labels of its selector.
func (r *Reconciler) deleteClaims(ctx context.Context, set *unstructured.Unstructured) error {
	match, _, _ := unstructured.NestedStringMap(set.Object, "spec", "selector", "matchLabels")
	if len(match) == 0 {
		return nil
	}
	err := r.Target.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(set.GetNamespace()),
		client.MatchingLabels(match))
	if err != nil {
		return fmt.Errorf("delete claims: %w", err)
	}
	return nil
}
