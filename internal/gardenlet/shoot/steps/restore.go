package steps

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// toRestore reports whether an object has not been taken over by its extension yet: it waits for its state, or the
// extension has released it.
func toRestore(o extensionsv1alpha1.Object) bool {
	switch o.GetAnnotations()[extensionsv1alpha1.AnnotationOperation] {
	case extensionsv1alpha1.OperationWaitForState, extensionsv1alpha1.OperationMigrate:
		return true
	case extensionsv1alpha1.OperationRestore:
		return false // Already requested.
	}
	op := o.GetDefaultStatus().LastOperation
	return op == nil || op.Type == corev1beta1.LastOperationTypeMigrate ||
		op.Type == corev1beta1.LastOperationTypeRestore && op.State == corev1beta1.LastOperationStateError
}

// restore creates an object, with the state that it had elsewhere, and requests its extension to adopt the
// infrastructure. After a stop in between it resumes: the extension must not act until the state is set.
func (extensions *Extensions) restore(
	ctx context.Context, wanted, current extensionsv1alpha1.Object, found bool,
) (flow.Outcome, error) {
	if found && current.GetDeletionTimestamp() != nil {
		return waitingFor(current, " is being deleted before it can be created again"), nil
	}
	now := extensions.seed.clock.Now()
	if !found {
		current = wanted.DeepCopyObject().(extensionsv1alpha1.Object)
		request := extensionobject.Request{
			Operation: extensionsv1alpha1.OperationWaitForState, Reason: "its state is written next", At: now,
		}
		if err := request.Create(ctx, extensions.seed, current); err != nil {
			return flow.Outcome{}, err
		}
		if current.GetResourceVersion() == "" {
			return waitingFor(current, " is being created"), nil // Another client was faster.
		}
	}
	if err := extensions.giveState(ctx, extensionobject.KindOf(current), current); err != nil {
		return flow.Outcome{}, err
	}
	request := extensionobject.Request{
		Operation: extensionsv1alpha1.OperationRestore, Reason: "the control plane has moved to this seed", At: now,
	}
	return waitingFor(current, " is being restored"), request.Update(ctx, extensions.seed, current, wanted)
}

// giveState puts what the garden has kept into an object's status, after making what that refers to, unless the object
// has a newer state of its own.
func (extensions *Extensions) giveState(ctx context.Context, kind string, o extensionsv1alpha1.Object) error {
	status := o.GetDefaultStatus()
	if extensions.state == nil || ownState(o, extensions.values.Shoot.Status.MigrationStartTime) {
		return nil
	}
	state, resources := extensions.state.StateOfObject(o)
	if len(resources) > 0 {
		if err := extensions.state.CreateResources(ctx, extensions.seed, extensions.seed.namespace); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(state, status.State) && equality.Semantic.DeepEqual(resources, status.Resources) {
		return nil
	}
	before := o.DeepCopyObject().(extensionsv1alpha1.Object)
	status.State, status.Resources = state, resources
	if err := extensions.seed.Status().Patch(ctx, o, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("restore the state of %s %q: %w", kind, o.GetName(), err)
	}
	return nil
}

// clockSkew is by how much the clocks of gardenlets and extensions may differ. A control plane is away for longer.
const clockSkew = 10 * time.Second

// ownState reports whether the state of an object is newer than what the garden has kept. An object that its extension
// has released in the last migration has the newest state, even if that is none: the migration was cancelled. For a
// Worker, the garden may have machines that have been replaced since. One that was released before has been left here
// by an earlier migration, and another seed has had the control plane since then.
func ownState(o extensionsv1alpha1.Object, migrationStarted *metav1.Time) bool {
	status := o.GetDefaultStatus()
	op := status.LastOperation
	if op == nil || op.Type != corev1beta1.LastOperationTypeMigrate || migrationStarted == nil {
		return status.State != nil || len(status.Resources) > 0
	}
	return !op.LastUpdateTime.Add(clockSkew).Before(migrationStarted.Time)
}
