package bastion

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// labelNamespace on an extension Bastion is the namespace of the Bastion in the garden, by which it is found again even
// if the Shoot cannot be read any more.
const labelNamespace = "hortus.dev/bastion-namespace"

// forbiddenPeriod is how soon a Bastion is read again that is in the cache, but forbidden. It is gone, and leaves the
// cache soon, or it is new to a replica of the API server.
const forbiddenPeriod = 2 * time.Second

// Reconciler has the machines of Bastions made, and removed.
type Reconciler struct {
	Garden client.Client // Direct reads and writes: decisions depend on the newest Shoot.
	Cache  client.Reader // Cached Bastions of the garden, to find those of a Shoot.
	Seed   client.Client // Direct reads and writes.
	Clock  clock.PassiveClock

	SeedName string
}

// Reconcile makes one pass over a Bastion. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, bastion *operationsv1alpha1.Bastion) (reconcile.Result, error) {
	err := r.Garden.Get(ctx, client.ObjectKeyFromObject(bastion), bastion)
	switch {
	case apierrors.IsForbidden(err): // The API server forbids what is not known to be on the seed.
		return reconcile.Result{RequeueAfter: forbiddenPeriod}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ptr.Deref(bastion.Spec.SeedName, "") != r.SeedName {
		return reconcile.Result{}, nil
	}
	if bastion.DeletionTimestamp != nil {
		return r.remove(ctx, bastion)
	}
	if err := kube.EnsureFinalizer(ctx, r.Garden, bastion, corev1beta1.FinalizerName); err != nil {
		return reconcile.Result{}, err
	}
	before := bastion.DeepCopy()
	progress, err := r.ensure(ctx, bastion)
	if err != nil {
		return reconcile.Result{}, err
	}
	bastion.Status.ObservedGeneration = ptr.To(bastion.Generation)
	if err := kube.PatchSharedStatus(ctx, r.Garden, bastion, before); err != nil {
		return reconcile.Result{}, err
	}
	return r.again(progress), nil
}

// again returns when a Bastion is looked at without an event.
func (r *Reconciler) again(progress extensionobject.Progress) reconcile.Result {
	if progress.RetryAt.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(progress.RetryAt.Sub(r.Clock.Now()), time.Second)}
}

// remove deletes the extension Bastion of a Bastion that is being deleted, and releases the Bastion.
func (r *Reconciler) remove(ctx context.Context, bastion *operationsv1alpha1.Bastion) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(bastion, corev1beta1.FinalizerName) {
		return reconcile.Result{}, nil
	}
	before := bastion.DeepCopy()
	progress, err := r.deleteObjects(ctx, bastion)
	if err != nil {
		return reconcile.Result{}, err
	}
	if progress.State == extensionobject.Done {
		return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, bastion, corev1beta1.FinalizerName)
	}
	r.set(&bastion.Status, condition(progress, &bastion.Status))
	bastion.Status.Ingress = nil
	return r.again(progress), kube.PatchSharedStatus(ctx, r.Garden, bastion, before)
}

// ensure brings the extension Bastion in line with the Bastion and its Shoot, and reports on it in the status.
func (r *Reconciler) ensure(
	ctx context.Context, bastion *operationsv1alpha1.Bastion,
) (extensionobject.Progress, error) {
	shoot, err := r.shoot(ctx, bastion)
	blocked := decide(shoot, r.SeedName)
	switch {
	case apierrors.IsForbidden(err): // The gardenlet may read all Shoots of its seed.
		blocked = &obstacle{reasonMoves, "The Shoot is on another Seed, or does not exist."}
	case err != nil:
		return extensionobject.Progress{}, err
	}
	script, err := userData(bastion.Spec.SSHPublicKey)
	if blocked == nil && err != nil {
		blocked = &obstacle{reasonInvalidKey, err.Error()}
	}
	if blocked != nil {
		bastion.Status.Ingress = nil
		r.set(&bastion.Status, corev1beta1.Condition{
			Type: operationsv1alpha1.BastionReady, Status: corev1beta1.ConditionFalse,
			Reason: blocked.reason, Message: blocked.message,
		})
		return r.deleteObjects(ctx, bastion)
	}
	object := extensionBastion(bastion, shoot.Status.TechnicalID, script)
	present := &extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	found, err := kube.Exists(ctx, r.Seed, present)
	if err != nil {
		return extensionobject.Progress{}, err
	}
	if found {
		object.Spec.UserData = present.Spec.UserData // It cannot change, whatever this version of the gardenlet writes.
	}
	progress, err := extensionobject.Ensure(ctx, r.Seed, extensionobject.Wanted{
		Object: object, FailingSince: failingSince(&bastion.Status),
	}, r.Clock.Now())
	if err != nil {
		return extensionobject.Progress{}, err
	}
	if progress.State == extensionobject.Done {
		bastion.Status.Ingress = object.Status.Ingress.DeepCopy()
	}
	r.set(&bastion.Status, condition(progress, &bastion.Status))
	return progress, nil
}

// shoot returns the Shoot of a Bastion, nil if it does not exist.
func (r *Reconciler) shoot(ctx context.Context, bastion *operationsv1alpha1.Bastion) (*corev1beta1.Shoot, error) {
	shoot := &corev1beta1.Shoot{}
	err := r.Garden.Get(ctx, client.ObjectKey{Namespace: bastion.Namespace, Name: bastion.Spec.ShootRef.Name}, shoot)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Shoot %q: %w", bastion.Spec.ShootRef.Name, err)
	}
	return shoot, nil
}

// extensionBastion is the object for the provider's extension.
func extensionBastion(
	bastion *operationsv1alpha1.Bastion, namespace string, script []byte,
) *extensionsv1alpha1.Bastion {
	object := &extensionsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: bastion.Name, Labels: map[string]string{labelNamespace: bastion.Namespace},
		},
		Spec: extensionsv1alpha1.BastionSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: ptr.Deref(bastion.Spec.ProviderType, "")},
			UserData:    script,
		},
	}
	for _, policy := range bastion.Spec.Ingress {
		object.Spec.Ingress = append(object.Spec.Ingress, extensionsv1alpha1.BastionIngressPolicy{IPBlock: policy.IPBlock})
	}
	return object
}

// deleteObjects deletes the extension Bastion, wherever it is, and returns the progress: done when it is gone.
func (r *Reconciler) deleteObjects(
	ctx context.Context, bastion *operationsv1alpha1.Bastion,
) (extensionobject.Progress, error) {
	list := &extensionsv1alpha1.BastionList{}
	if err := r.Seed.List(ctx, list, client.MatchingLabels{labelNamespace: bastion.Namespace}); err != nil {
		return extensionobject.Progress{}, fmt.Errorf("list extension Bastions: %w", err)
	}
	out := extensionobject.Progress{State: extensionobject.Done}
	var errs []error
	for i := range list.Items {
		if list.Items[i].Name != bastion.Name {
			continue
		}
		progress, err := extensionobject.Delete(ctx, r.Seed, &list.Items[i], failingSince(&bastion.Status), r.Clock.Now())
		if err != nil {
			errs = append(errs, err)
		} else if progress.State != extensionobject.Done {
			out = progress
		}
	}
	return out, errors.Join(errs...)
}

func (r *Reconciler) set(status *operationsv1alpha1.BastionStatus, c corev1beta1.Condition) {
	status.Conditions = corev1beta1.SetCondition(status.Conditions, c, r.Clock.Now())
}

// failingSince is when the extension began to fail; zero if it does not.
func failingSince(status *operationsv1alpha1.BastionStatus) time.Time {
	c := corev1beta1.FindCondition(status.Conditions, operationsv1alpha1.BastionReady)
	if c == nil || c.Reason != reasonFailed {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}
