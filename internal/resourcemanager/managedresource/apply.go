package managedresource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/managedresource"
)

const (
	// defaultParallel bounds the requests for one ManagedResource at a time, below the limit of the client.
	defaultParallel = 8
	// applyAttempts bounds the tries for one object when others write it at the same time.
	applyAttempts = 4
)

// apply deletes what is no longer wanted and applies the rest. The conditions report the outcome; an error means that
// it is worth trying again soon, a result that something has to be waited for.
func (r *Reconciler) apply(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, rec *record,
) (reconcile.Result, error) {
	if err := r.ensureCurrent(ctx, mr); err != nil {
		return reconcile.Result{}, err
	}
	secrets, err := r.readSecrets(ctx, mr)
	if err != nil {
		return r.cannotRead(mr, err)
	}
	objects, decodeErr := decode(secrets, r.Target.RESTMapper())
	if objects == nil && decodeErr != nil {
		r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonDecodingFailed,
			decodeErr.Error())
		return reconcile.Result{}, decodeErr
	}
	options := mergeOptions{
		origin:               origin(r.ClusterID, client.ObjectKeyFromObject(mr)),
		injectLabels:         mr.Spec.InjectLabels,
		overwriteLabels:      ptr.Deref(mr.Spec.ForceOverwriteLabels, false),
		overwriteAnnotations: ptr.Deref(mr.Spec.ForceOverwriteAnnotations, false),
	}
	wanted, released := split(objects, options)
	id := identities(mr.Spec.Equivalences)
	orphans, last := compare(mr.Status.Resources, wanted, released, id)
	if decodeErr != nil {
		orphans = nil // The objects that cannot be decoded may be among them.
	}
	sum := managedresource.Checksum(secrets...)
	options.corrects = appliedBefore(mr, sum)
	if err := r.announce(ctx, mr, rec, wanted, sum, id); err != nil {
		return reconcile.Result{}, err
	}

	if err := r.release(ctx, released, options.origin); err != nil {
		r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionFalse,
			resourcesv1alpha1.ReasonReleaseOfOrphanedResourcesFailed, err.Error())
		return reconcile.Result{}, err
	}
	pending, err := r.deleteObjects(ctx, mr, orphans)
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
	if err := r.applyAll(ctx, wanted, last, options, rec); err != nil {
		r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonApplyFailed,
			err.Error())
		return reconcile.Result{}, err
	}
	if decodeErr != nil {
		r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonDecodingFailed,
			decodeErr.Error())
		return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil
	}
	rec.announced = ""
	mr.Status.Resources = references(wanted)
	mr.Status.SecretsDataChecksum = &sum
	mr.Status.ObservedGeneration = mr.Generation
	r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionTrue, resourcesv1alpha1.ReasonApplySucceeded,
		"All resources are applied.")
	return reconcile.Result{}, nil
}

// ensureCurrent returns a conflict if the cache is stale. Its status may list an object that the newest one no longer
// does; applying that object without listing it again would mean to forget it.
func (r *Reconciler) ensureCurrent(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) error {
	live := metadata(resourcesv1alpha1.SchemeGroupVersion.WithKind("ManagedResource"))
	err := r.SourceReader.Get(ctx, client.ObjectKeyFromObject(mr), live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read ManagedResource: %w", err)
	}
	if err != nil || live.ResourceVersion != mr.ResourceVersion {
		return apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), mr.Name,
			errors.New("the cache is stale"))
	}
	return nil
}

func (r *Reconciler) readSecrets(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) ([]*corev1.Secret, error) {
	var out []*corev1.Secret
	for _, ref := range mr.Spec.SecretRefs {
		s := &corev1.Secret{}
		if err := r.SourceReader.Get(ctx, types.NamespacedName{Namespace: mr.Namespace, Name: ref.Name}, s); err != nil {
			return nil, fmt.Errorf("read Secret %q: %w", ref.Name, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// split separates the objects to manage, with what the resource-manager adds, from those to leave alone.
func split(objects []*object, o mergeOptions) (wanted, released []*object) {
	for _, obj := range objects {
		if isIgnored(obj.want) {
			released = append(released, obj)
			continue
		}
		wanted = append(wanted, &object{ref: obj.ref, want: injected(obj.want, o)})
	}
	return wanted, released
}

func references(objects []*object) []resourcesv1alpha1.ObjectReference {
	out := make([]resourcesv1alpha1.ObjectReference, 0, len(objects))
	for _, o := range objects {
		out = append(out, toStatus(o.ref, o.want.GetLabels(), o.want.GetAnnotations()))
	}
	sortReferences(out)
	return out
}

// compare returns the references of the last application that are no longer wanted, and by identity those that are.
func compare(
	before []resourcesv1alpha1.ObjectReference, wanted, released []*object, id func(reference) identity,
) (orphans []resourcesv1alpha1.ObjectReference, last map[identity]resourcesv1alpha1.ObjectReference) {
	now := map[identity]bool{}
	for _, o := range slices.Concat(wanted, released) {
		now[id(o.ref)] = true
	}
	last = map[identity]resourcesv1alpha1.ObjectReference{}
	for _, ref := range before {
		key := id(fromStatus(ref))
		if now[key] {
			last[key] = ref
		} else {
			orphans = append(orphans, ref)
		}
	}
	return orphans, last
}

// announce records in the status, before anything is done, which objects, labels and annotations may exist from now on
// and that nothing is known of them. An object created just before a crash is found again that way. Nothing is recorded
// twice, so that retries do not change the conditions back and forth.
func (r *Reconciler) announce(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, rec *record, wanted []*object, sum string,
	id func(reference) identity,
) error {
	all, grown := extend(mr.Status.Resources, wanted, id)
	announced := fmt.Sprintf("%d %s", mr.Generation, sum)
	if !grown && (appliedBefore(mr, sum) || rec.announced == announced) {
		return nil
	}
	before := mr.DeepCopy()
	mr.Status.Resources = all
	const message = "The resources are being applied."
	r.set(mr, resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionUnknown, resourcesv1alpha1.ReasonChecksPending,
		message)
	r.set(mr, resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionUnknown, resourcesv1alpha1.ReasonChecksPending,
		message)
	r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionProgressing,
		resourcesv1alpha1.ReasonApplyProgressing, message)
	if err := r.patchStatus(ctx, mr, before); err != nil {
		return err
	}
	rec.announced = announced
	return nil
}

// appliedBefore reports whether the ManagedResource was applied as it is, with Secrets of this checksum.
func appliedBefore(mr *resourcesv1alpha1.ManagedResource, sum string) bool {
	return ptr.Deref(mr.Status.SecretsDataChecksum, "") == sum && mr.Status.ObservedGeneration == mr.Generation
}

// extend adds what is wanted now to the references of earlier applications, and reports whether an object is new.
func extend(
	before []resourcesv1alpha1.ObjectReference, wanted []*object, id func(reference) identity,
) (all []resourcesv1alpha1.ObjectReference, grown bool) {
	all = slices.Clone(before)
	known := map[identity]int{}
	for i, ref := range all {
		known[id(fromStatus(ref))] = i
	}
	for _, ref := range references(wanted) {
		i, ok := known[id(fromStatus(ref))]
		if !ok {
			all = append(all, ref)
			continue
		}
		all[i].Labels = union(all[i].Labels, ref.Labels)
		all[i].Annotations = union(all[i].Annotations, ref.Annotations)
	}
	sortReferences(all)
	return all, len(all) > len(before)
}

// release takes the origin annotation off objects that are to be left alone from now on.
func (r *Reconciler) release(ctx context.Context, objects []*object, origin string) error {
	var errs []error
	for _, o := range objects {
		m := metadata(o.ref.GroupVersionKind)
		err := r.Target.Get(ctx, client.ObjectKey{Namespace: o.ref.Namespace, Name: o.ref.Name}, m)
		if gone(err) || err == nil && m.Annotations[resourcesv1alpha1.AnnotationOrigin] != origin {
			continue
		}
		if err == nil {
			before := m.DeepCopy()
			delete(m.Annotations, resourcesv1alpha1.AnnotationOrigin)
			delete(m.Annotations, resourcesv1alpha1.AnnotationDescription)
			delete(m.Labels, resourcesv1alpha1.LabelManagedBy)
			err = client.IgnoreNotFound(r.Target.Patch(ctx, m, client.MergeFrom(before)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", o.ref, err))
		}
	}
	return errors.Join(errs...)
}

// applyAll applies the objects kind after kind. A failure does not keep others from being applied: what depends on the
// failed object fails too and is tried again with it.
func (r *Reconciler) applyAll(
	ctx context.Context, objects []*object, last map[identity]resourcesv1alpha1.ObjectReference, o mergeOptions,
	rec *record,
) error {
	scaled := scaleTargets(objects)
	id := identities(nil)
	var mu sync.Mutex
	failed := map[reference]error{}
	stamps := make(map[reference]string, len(objects))
	for _, group := range inOrder(objects) {
		var g errgroup.Group
		g.SetLimit(cmp.Or(r.Parallel, defaultParallel))
		for _, obj := range group {
			g.Go(func() error {
				live, err := r.applyOne(ctx, obj, last[id(obj.ref)], scaled[id(obj.ref)], o)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					r.Metrics.changed(resultFailed)
					failed[obj.ref] = err
					return nil
				}
				stamps[obj.ref] = stamp(live)
				return nil
			})
		}
		_ = g.Wait()
	}
	rec.stamps = stamps
	for _, obj := range objects {
		if err := r.owned.watch(ctx, obj.ref.GroupVersionKind); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Cannot watch", "kind", obj.ref.Kind, "reason", err.Error())
		}
	}
	var errs []error
	for _, obj := range objects { // In the order of the Secrets, so that the text is always the same.
		if err := failed[obj.ref]; err != nil {
			errs = append(errs, fmt.Errorf("apply %s: %w", obj.ref, err))
		}
	}
	return errors.Join(errs...)
}

// applyOne creates or updates one object and returns it as the server has it now.
func (r *Reconciler) applyOne(
	ctx context.Context, obj *object, last resourcesv1alpha1.ObjectReference, scaled bool, o mergeOptions,
) (*unstructured.Unstructured, error) {
	var err error
	for range applyAttempts {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(obj.ref.GroupVersionKind)
		err = r.Target.Get(ctx, client.ObjectKey{Namespace: obj.ref.Namespace, Name: obj.ref.Name}, live)
		if apierrors.IsNotFound(err) {
			created := obj.want.DeepCopy()
			if err = r.Target.Create(ctx, created); err == nil {
				r.changed(ctx, "Created object", obj, resultCreated, o)
				return created, nil
			}
			if apierrors.IsAlreadyExists(err) {
				continue
			}
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		if isTrue(obj.want.GetAnnotations(), resourcesv1alpha1.AnnotationIgnore) {
			return live, nil
		}
		next := merge(live, obj.want, last, scaled, o)
		if equality.Semantic.DeepEqual(live.Object, next.Object) {
			return live, nil
		}
		if err = r.Target.Update(ctx, next); err == nil {
			r.changed(ctx, "Updated object", obj, resultUpdated, o)
			return next, nil
		}
		if apierrors.IsInvalid(err) && replaceable(live, obj.want) {
			if err := r.deleteForReplacement(ctx, live, obj.want); err != nil {
				return nil, err
			}
			continue
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return nil, err
}

// changed logs and counts a change of an object.
func (r *Reconciler) changed(ctx context.Context, message string, obj *object, result string, o mergeOptions) {
	if o.corrects {
		result = resultCorrected
	}
	ctrl.LoggerFrom(ctx).Info(message, "object", obj.ref.String(), "changedBySomebodyElse", o.corrects)
	r.Metrics.changed(result)
}

// replaceable reports whether an object whose update is invalid may be deleted and created again.
func replaceable(live, want *unstructured.Unstructured) bool {
	if isTrue(want.GetAnnotations(), resourcesv1alpha1.AnnotationDeleteOnInvalidUpdate) {
		return true
	}
	if want.GetAPIVersion() != "v1" || want.GetKind() != "ConfigMap" && want.GetKind() != "Secret" {
		return false
	}
	immutable, _, _ := unstructured.NestedBool(live.Object, "immutable")
	return immutable
}

func (r *Reconciler) deleteForReplacement(ctx context.Context, live, want *unstructured.Unstructured) error {
	var options []client.DeleteOption
	p := want.GetAnnotations()[resourcesv1alpha1.AnnotationDeletionPropagationOnInvalidUpdate]
	switch metav1.DeletionPropagation(p) {
	case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
		options = append(options, client.PropagationPolicy(p))
	}
	options = append(options, client.Preconditions{UID: ptr.To(live.GetUID())})
	ctrl.LoggerFrom(ctx).Info("Deleting object whose update is invalid", "object", live.GetKind()+" "+
		client.ObjectKeyFromObject(live).String())
	if err := client.IgnoreNotFound(r.Target.Delete(ctx, live, options...)); err != nil {
		return fmt.Errorf("delete for replacement: %w", err)
	}
	return nil
}
