package extension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/errorcode"
)

const (
	// Failed operations are tried again after 1 s, 2 s, 4 s and so on up to half a minute: below the time after which the
	// gardenlet gives up on an error with a code, so that a quota that was raised shows in the Shoot soon.
	retryMin = time.Second
	retryMax = 30 * time.Second

	// stalePause is the time until an object is read again that was not the newest: usually the cache has seen it by then.
	// An event that follows the reconciler's own write, such as that of a created machine, often arrives before it.
	stalePause = 100 * time.Millisecond

	// maxConcurrentReconciles suits actuators that never wait.
	maxConcurrentReconciles = 10
)

// Reconciler implements the operation contract for one kind and type of object and leaves the work to its Actuator.
type Reconciler[T Object] struct {
	Client   client.Client // For the seed: cached reads, direct writes.
	Clock    clock.PassiveClock
	Actuator Actuator[T]

	Prototype T      // An empty object of the kind.
	Kind      string // For names and messages, for example Infrastructure.
	Type      string // The type served, for example local.
	// Classes served. Empty means objects of Shoots.
	Classes []extensionsv1alpha1.Class
	// FinalizerSuffix names the finalizer. Empty means the kind's default; kind Extension has none and must set it.
	FinalizerSuffix string
	// SecretRef returns a Secret that must outlive the object; it gets the same finalizer. A nil function protects none.
	SecretRef func(T) *corev1.SecretReference
	// WithoutCluster is set for kinds that belong to no Shoot, even if their namespace has a Cluster.
	WithoutCluster bool
	// IgnoreOperationAnnotation makes the reconciler act on every change of the spec instead of waiting for a request.
	IgnoreOperationAnnotation bool
}

// finalizerSuffixes are those of the contract; the plural of one of them is historical.
var finalizerSuffixes = map[string]string{
	extensionsv1alpha1.OperatingSystemConfigKind: "operatingsystemconfigs",
}

func (r *Reconciler[T]) finalizer() string {
	suffix := r.FinalizerSuffix
	if suffix == "" {
		suffix = finalizerSuffixes[r.Kind]
	}
	if suffix == "" {
		suffix = strings.ToLower(r.Kind)
	}
	return extensionsv1alpha1.FinalizerPrefix + suffix
}

func (r *Reconciler[T]) classes() []extensionsv1alpha1.Class {
	if len(r.Classes) == 0 {
		return []extensionsv1alpha1.Class{extensionsv1alpha1.ClassShoot}
	}
	return r.Classes
}

// SetupWithManager registers the reconciler. The function watch may add watches whose events call the Actuator again
// while an operation is unfinished; it may be nil.
func (r *Reconciler[T]) SetupWithManager(mgr ctrl.Manager, watch func(*builder.Builder) *builder.Builder) error {
	if err := r.check(); err != nil {
		return err
	}
	trigger := OperationRequested()
	if r.IgnoreOperationAnnotation {
		trigger = GenerationChanged()
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(strings.ToLower(r.Kind)+"-"+r.Type).
		For(r.Prototype, builder.WithPredicates(HasTypeAndClass(r.Type, r.classes()...), trigger)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryMin, retryMax),
		})
	if watch != nil {
		b = watch(b)
	}
	return b.Complete(r)
}

// Reconcile makes the next step for one object.
func (r *Reconciler[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	res, err := r.step(ctx, req)
	if errors.Is(err, errStale) {
		log.FromContext(ctx).V(1).Info("Waiting for the cache", "kind", r.Kind)
		return reconcile.Result{RequeueAfter: stalePause}, nil
	}
	return res, err
}

func (r *Reconciler[T]) step(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := r.Prototype.DeepCopyObject().(T)
	if err := r.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// Watches on other objects lead here too, so predicates alone do not decide.
	if !r.concerns(obj) || waitsForState(obj) {
		return reconcile.Result{}, nil
	}
	if due, err := r.due(ctx, obj); err != nil || !due {
		return reconcile.Result{}, err
	}
	cluster, err := r.cluster(ctx, obj)
	if err != nil {
		return reconcile.Result{}, err
	}
	op := OperationType(obj)
	switch {
	case cluster != nil && cluster.ShootFailed():
		return reconcile.Result{}, r.removeOperation(ctx, obj, extensionsv1alpha1.OperationReconcile)
	case migrated(obj) && op == corev1beta1.LastOperationTypeDelete:
		return reconcile.Result{}, r.releaseMigrated(ctx, obj) // Everything outside belongs to another seed now.
	case migrated(obj) && op != corev1beta1.LastOperationTypeMigrate && op != corev1beta1.LastOperationTypeRestore:
		return reconcile.Result{}, r.removeOperation(ctx, obj, extensionsv1alpha1.OperationReconcile)
	}
	switch op {
	case corev1beta1.LastOperationTypeMigrate:
		return r.migrate(ctx, obj, cluster)
	case corev1beta1.LastOperationTypeDelete:
		return r.delete(ctx, obj, cluster)
	case corev1beta1.LastOperationTypeRestore:
		return r.restore(ctx, obj, cluster)
	default:
		return r.reconcile(ctx, obj, cluster, op)
	}
}

func (r *Reconciler[T]) concerns(obj T) bool {
	spec := obj.GetDefaultSpec()
	if spec.Type != r.Type {
		return false
	}
	for _, class := range r.classes() {
		if spec.GetClass() == class {
			return true
		}
	}
	return false
}

func (r *Reconciler[T]) due(ctx context.Context, obj T) (bool, error) {
	if r.IgnoreOperationAnnotation && obj.GetDefaultStatus().ObservedGeneration != obj.GetGeneration() || requested(obj) {
		return true, nil
	}
	if f, ok := r.Actuator.(Follower[T]); ok && !migrated(obj) {
		return f.FollowUp(ctx, obj)
	}
	return false, nil
}

// cluster returns the Cluster of an object, or nil if it belongs to no Shoot.
func (r *Reconciler[T]) cluster(ctx context.Context, obj T) (*Cluster, error) {
	if r.WithoutCluster || obj.GetNamespace() == "" || obj.GetNamespace() == corev1beta1.GardenNamespace ||
		obj.GetDefaultSpec().GetClass() != extensionsv1alpha1.ClassShoot {
		return nil, nil
	}
	return GetCluster(ctx, r.Client, obj.GetNamespace())
}

func (r *Reconciler[T]) reconcile(
	ctx context.Context, obj T, cluster *Cluster, op corev1beta1.LastOperationType,
) (reconcile.Result, error) {
	status, err := r.acquire(ctx, obj, op)
	if err != nil {
		return reconcile.Result{}, err
	}
	// The request is dropped only when the status says that its work has begun: a crash in between loses nothing.
	if err := r.removeOperation(ctx, obj, extensionsv1alpha1.OperationReconcile); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.validate(ctx, obj, cluster); err != nil {
		return status.finish(ctx, Result{}, err)
	}
	result, err := r.Actuator.Reconcile(ctx, obj, cluster)
	return status.finish(ctx, result, err)
}

func (r *Reconciler[T]) restore(ctx context.Context, obj T, cluster *Cluster) (reconcile.Result, error) {
	status, err := r.acquire(ctx, obj, corev1beta1.LastOperationTypeRestore)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.validate(ctx, obj, cluster); err != nil {
		return status.finish(ctx, Result{}, err)
	}
	result, err := r.Actuator.Restore(ctx, obj, cluster)
	res, err := status.finish(ctx, result, err)
	if err != nil || !res.IsZero() {
		return res, err
	}
	return res, r.removeOperation(ctx, obj, extensionsv1alpha1.OperationRestore)
}

func (r *Reconciler[T]) migrate(ctx context.Context, obj T, cluster *Cluster) (reconcile.Result, error) {
	if !migrated(obj) {
		status := r.begin(obj, corev1beta1.LastOperationTypeMigrate)
		if err := status.start(ctx); err != nil {
			return reconcile.Result{}, err
		}
		result, err := r.Actuator.Migrate(ctx, obj, cluster)
		if res, err := status.finish(ctx, result, err); err != nil || !res.IsZero() {
			return res, err
		}
		if err := r.release(ctx, obj); err != nil {
			return reconcile.Result{}, err
		}
	} else if err := r.releaseMigrated(ctx, obj); err != nil { // A crash came between the success and what follows it.
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.removeOperation(ctx, obj, extensionsv1alpha1.OperationMigrate)
}

func (r *Reconciler[T]) delete(ctx context.Context, obj T, cluster *Cluster) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(obj, r.finalizer()) {
		return reconcile.Result{}, nil
	}
	status := r.begin(obj, corev1beta1.LastOperationTypeDelete)
	if err := status.start(ctx); err != nil {
		return reconcile.Result{}, err
	}
	act := r.Actuator.Delete
	if forced(obj, cluster) {
		act = r.Actuator.ForceDelete
	}
	result, err := act(ctx, obj, cluster)
	res, err := status.finish(ctx, result, err)
	if err != nil || !res.IsZero() {
		return res, err
	}
	return reconcile.Result{}, r.release(ctx, obj)
}

// forced reports whether deletion is forced. Objects without Shoot carry the annotation themselves.
func forced(obj Object, cluster *Cluster) bool {
	if cluster != nil {
		return cluster.ForceDeletion()
	}
	force, _ := strconv.ParseBool(obj.GetAnnotations()[extensionsv1alpha1.AnnotationConfirmForceDeletion])
	return force
}

func (r *Reconciler[T]) validate(ctx context.Context, obj T, cluster *Cluster) error {
	v, ok := r.Actuator.(Validator[T])
	if !ok {
		return nil
	}
	problems := v.Validate(ctx, obj, cluster)
	if len(problems) == 0 {
		return nil
	}
	err := fmt.Errorf("validate %s: %w", r.Kind, problems.ToAggregate())
	for _, p := range problems {
		if p.Type == field.ErrorTypeInternal {
			return err
		}
	}
	return errorcode.With(err, corev1beta1.ErrorConfigurationProblem)
}

// acquire adds the finalizer to the object and to its Secret, and starts the operation. The Secret comes last: a stale
// object must not get hold of one that nothing would release.
func (r *Reconciler[T]) acquire(
	ctx context.Context, obj T, op corev1beta1.LastOperationType,
) (*progress[T], error) {
	if err := ensureFinalizer(ctx, r.Client, obj, r.finalizer()); err != nil {
		return nil, err
	}
	status := r.begin(obj, op)
	if err := status.start(ctx); err != nil || r.SecretRef == nil {
		return status, err
	}
	secret, err := r.secret(ctx, obj)
	if err != nil || secret == nil || !secret.DeletionTimestamp.IsZero() {
		return status, err
	}
	return status, confirmFinalizer(ctx, r.Client, secret, r.finalizer(), controllerutil.AddFinalizer)
}

// releaseMigrated is release for an object whose migration has succeeded before.
func (r *Reconciler[T]) releaseMigrated(ctx context.Context, obj T) error {
	if err := r.begin(obj, corev1beta1.LastOperationTypeMigrate).confirm(ctx); err != nil {
		return err
	}
	return r.release(ctx, obj)
}

// release removes the finalizer from the Secret and then from the object.
func (r *Reconciler[T]) release(ctx context.Context, obj T) error {
	if r.SecretRef != nil {
		secret, err := r.secret(ctx, obj)
		if err != nil {
			return err
		}
		if secret != nil {
			err := confirmFinalizer(ctx, r.Client, secret, r.finalizer(), controllerutil.RemoveFinalizer)
			if err != nil {
				return err
			}
		}
	}
	return removeFinalizer(ctx, r.Client, obj, r.finalizer())
}

func (r *Reconciler[T]) secret(ctx context.Context, obj T) (*corev1.Secret, error) {
	ref := r.SecretRef(obj)
	if ref == nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil // The actuator complains if it needs it.
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return secret, nil
}

// removeOperation removes a request that has been read. The server compares operation and timestamp with what was read,
// because the object may come from a stale cache: a newer request stays, and its own event leads here again.
func (r *Reconciler[T]) removeOperation(ctx context.Context, obj T, operation string) error {
	read := obj.GetAnnotations()
	if read[extensionsv1alpha1.AnnotationOperation] != operation {
		return nil
	}
	patch, err := removalOfRequest(read)
	if err != nil {
		return err
	}
	answer := obj.DeepCopyObject().(T)
	switch err := r.Client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch)); {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsInvalid(err):
		log.FromContext(ctx).Info("Keeping a newer request", "kind", r.Kind, "handled", operation)
		return nil
	case err != nil:
		return fmt.Errorf("remove annotation from %s %s: %w", r.Kind, client.ObjectKeyFromObject(obj), err)
	}
	obj.SetAnnotations(answer.GetAnnotations())
	obj.SetResourceVersion(answer.GetResourceVersion())
	return nil
}

// removalOfRequest is the JSON patch that removes the operation if it and its timestamp are still as in annotations.
func removalOfRequest(annotations map[string]string) ([]byte, error) {
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	path := func(annotation string) string {
		return "/metadata/annotations/" + strings.ReplaceAll(annotation, "/", "~1")
	}
	var steps []step
	for _, key := range []string{extensionsv1alpha1.AnnotationOperation, extensionsv1alpha1.AnnotationTimestamp} {
		if value, ok := annotations[key]; ok {
			steps = append(steps, step{Op: "test", Path: path(key), Value: value})
		}
	}
	steps = append(steps, step{Op: "remove", Path: path(extensionsv1alpha1.AnnotationOperation)})
	patch, err := json.Marshal(steps)
	if err != nil {
		return nil, fmt.Errorf("encode the removal of a request: %w", err)
	}
	return patch, nil
}

var errNoFinalizer = errors.New("kind Extension needs a finalizer suffix")

// check reports a Reconciler that was put together wrongly.
func (r *Reconciler[T]) check() error {
	if r.Kind == extensionsv1alpha1.ExtensionKind && r.FinalizerSuffix == "" {
		return errNoFinalizer
	}
	return nil
}
