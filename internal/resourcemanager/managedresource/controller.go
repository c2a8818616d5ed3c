package managedresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/reconnect"
)

const (
	// pendingInterval is the interval of checks while deleted objects still exist. Watches usually report their removal
	// earlier.
	pendingInterval = 5 * time.Second
	// concurrentSyncs is the number of ManagedResources reconciled concurrently. A Shoot has 12 to 24.
	concurrentSyncs = 5
	// indexSecret finds ManagedResources by the Secrets they name.
	indexSecret = "spec.secretRefs.name"
)

// Reconciler keeps the objects of ManagedResources of one class applied.
type Reconciler struct {
	Source       client.Client // Cached reads of ManagedResources and of the metadata of Secrets, direct writes.
	SourceReader client.Reader // Direct reads, of what is about to be applied only.
	Target       client.Client // Direct reads and writes.
	Clock        clock.PassiveClock

	Class            string
	ClusterID        string        // Prefix of the origin annotation, if several source clusters share a target.
	SyncPeriod       time.Duration // The longest time between two reconciles.
	GarbageCollected bool          // Leave immutable objects to the garbage collector.
	Parallel         int           // Requests for one ManagedResource at a time. Default 8.
	Metrics          *Metrics      // Nil counts nothing.

	owned   *owned // Nil in tests: objects are read directly then.
	records records
}

// AddToManager registers the controller. targetMetadata holds the metadata of managed objects of the target cluster.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, targetMetadata cache.Cache) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &resourcesv1alpha1.ManagedResource{}, indexSecret,
		func(o client.Object) []string {
			var names []string
			for _, ref := range o.(*resourcesv1alpha1.ManagedResource).Spec.SecretRefs {
				names = append(names, ref.Name)
			}
			return names
		})
	if err != nil {
		return fmt.Errorf("index ManagedResources: %w", err)
	}
	c, err := ctrl.NewControllerManagedBy(mgr).
		Named("managedresource").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrentSyncs, RateLimiter: reconnect.RateLimiter(),
		}).
		For(&resourcesv1alpha1.ManagedResource{}, builderPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, finalizersChanged()))).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret),
			builderPredicates(predicate.ResourceVersionChangedPredicate{})).
		Build(r)
	if err != nil {
		return fmt.Errorf("create ManagedResource controller: %w", err)
	}
	r.owned = &owned{cache: targetMetadata, controller: c}
	return nil
}

// ofSecret returns the ManagedResources that name a Secret.
func (r *Reconciler) ofSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	return kube.RequestsFor(ctx, r.Source, &resourcesv1alpha1.ManagedResourceList{},
		client.InNamespace(secret.GetNamespace()), client.MatchingFields{indexSecret: secret.GetName()})
}

// finalizer is the mark of the resource-manager of a class.
func finalizer(class string) string {
	if class == "" {
		return resourcesv1alpha1.FinalizerName
	}
	return resourcesv1alpha1.FinalizerName + "-" + class
}

// foreignFinalizer returns the finalizer of another class, if there is one.
func foreignFinalizer(mr *resourcesv1alpha1.ManagedResource, own string) string {
	i := slices.IndexFunc(mr.Finalizers, func(f string) bool {
		return f != own && (f == resourcesv1alpha1.FinalizerName || strings.HasPrefix(f, resourcesv1alpha1.FinalizerName+"-"))
	})
	if i < 0 {
		return ""
	}
	return mr.Finalizers[i]
}

// Reconcile applies the objects of one ManagedResource to the target cluster, or reports why it cannot.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Source.Get(ctx, req.NamespacedName, mr); err != nil {
		r.records.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	own := finalizer(r.Class)
	marked := controllerutil.ContainsFinalizer(mr, own)
	if ptr.Deref(mr.Spec.Class, "") != r.Class {
		if !marked {
			return reconcile.Result{}, nil
		}
		return r.withStatus(ctx, mr, r.remove) // The class was changed to another.
	}
	if mr.DeletionTimestamp != nil {
		if !marked {
			return reconcile.Result{}, nil
		}
		return r.withStatus(ctx, mr, r.remove)
	}
	if !marked && foreignFinalizer(mr, own) != "" {
		return reconcile.Result{}, nil // The removal of that finalizer is the next event.
	}
	if isTrue(mr.Annotations, resourcesv1alpha1.AnnotationIgnore) {
		return r.withStatus(ctx, mr, r.ignore)
	}
	if err := kube.EnsureFinalizer(ctx, r.Source, mr, own); err != nil {
		return reconcile.Result{}, err
	}
	return r.withStatus(ctx, mr, r.ensure)
}

// withStatus runs one way of reconciling and writes the status once, whatever happened.
func (r *Reconciler) withStatus(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource,
	run func(context.Context, *resourcesv1alpha1.ManagedResource) (reconcile.Result, error),
) (reconcile.Result, error) {
	before := mr.DeepCopy()
	result, err := run(ctx, mr)
	if apierrors.IsConflict(err) { // The cache is stale; it will get the newer object soon.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	patchErr := r.patchStatus(ctx, mr, before)
	if patchErr != nil {
		r.records.forget(client.ObjectKeyFromObject(mr)) // The status does not say what is remembered as done.
	}
	return result, errors.Join(err, patchErr)
}

// patchStatus writes the status and notes the new resource version, which the removal of the finalizer relies on. It
// is a conflict if the cache is stale: the status alone knows which objects there are, so no older list replaces it.
func (r *Reconciler) patchStatus(ctx context.Context, mr, before *resourcesv1alpha1.ManagedResource) error {
	if equality.Semantic.DeepEqual(mr.Status, before.Status) {
		return nil
	}
	written, last := mr.DeepCopy(), before.DeepCopy()
	last.ResourceVersion = mr.ResourceVersion // Our own writes since then are no conflict.
	patch := client.MergeFromWithOptions(last, client.MergeFromWithOptimisticLock{})
	if err := r.Source.Status().Patch(ctx, written, patch); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("patch status: %w", err)
	}
	mr.ResourceVersion = written.ResourceVersion
	return nil
}

func (r *Reconciler) set(
	mr *resourcesv1alpha1.ManagedResource, kind corev1beta1.ConditionType, status corev1beta1.ConditionStatus, reason,
	message string,
) {
	setCondition(mr, r.Clock.Now(), kind, status, reason, message)
}

// ignore leaves everything as it is.
func (r *Reconciler) ignore(_ context.Context, mr *resourcesv1alpha1.ManagedResource) (reconcile.Result, error) {
	r.records.forget(client.ObjectKeyFromObject(mr)) // Once it is not ignored any more, all is applied.
	const message = "The ManagedResource is marked to be ignored."
	r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionTrue,
		resourcesv1alpha1.ReasonManagedResourceIgnored, message)
	r.set(mr, resourcesv1alpha1.ResourcesHealthy, corev1beta1.ConditionTrue,
		resourcesv1alpha1.ReasonManagedResourceIgnored, message)
	r.set(mr, resourcesv1alpha1.ResourcesProgressing, corev1beta1.ConditionFalse,
		resourcesv1alpha1.ReasonManagedResourceIgnored, message)
	return reconcile.Result{}, nil
}

// ensure applies what is wanted, unless all is as it was left, and judges it.
func (r *Reconciler) ensure(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (reconcile.Result, error) {
	rec := r.records.get(client.ObjectKeyFromObject(mr))
	input, err := r.input(ctx, mr)
	if err != nil {
		return r.cannotRead(mr, err)
	}
	if rec.input != input || condition(mr, resourcesv1alpha1.ResourcesApplied) != corev1beta1.ConditionTrue ||
		!r.unchanged(ctx, rec) {
		rec.input = ""
		if result, err := r.apply(ctx, mr, rec); err != nil || !result.IsZero() {
			return result, err
		}
		rec.input = input
	}
	if condition(mr, resourcesv1alpha1.ResourcesApplied) != corev1beta1.ConditionTrue {
		return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil
	}
	return r.judge(ctx, mr, rec)
}

func (r *Reconciler) cannotRead(mr *resourcesv1alpha1.ManagedResource, err error) (reconcile.Result, error) {
	r.set(mr, resourcesv1alpha1.ResourcesApplied, corev1beta1.ConditionFalse, resourcesv1alpha1.ReasonCannotReadSecret,
		err.Error())
	if apierrors.IsNotFound(err) { // The watch on Secrets reports its creation.
		return reconcile.Result{RequeueAfter: r.SyncPeriod}, nil
	}
	return reconcile.Result{}, err
}

// input identifies everything the wanted objects depend on.
func (r *Reconciler) input(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (string, error) {
	out := fmt.Sprintf("%s %d", mr.UID, mr.Generation)
	for _, ref := range mr.Spec.SecretRefs {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		if err := r.Source.Get(ctx, types.NamespacedName{Namespace: mr.Namespace, Name: ref.Name}, m); err != nil {
			return "", fmt.Errorf("read Secret %q: %w", ref.Name, err)
		}
		out += fmt.Sprintf(" %s %s", m.UID, m.ResourceVersion)
	}
	return out, nil
}

// unchanged reports whether all objects are known to be as they were left.
func (r *Reconciler) unchanged(ctx context.Context, rec *record) bool {
	for ref, want := range rec.stamps {
		m := r.owned.get(ctx, ref)
		if m == nil || stamp(m) != want {
			return false
		}
	}
	return true
}
