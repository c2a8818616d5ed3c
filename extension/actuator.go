package extension

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Object constrains type parameters to pointers to the kinds of the extension contract.
type Object = extensionsv1alpha1.Object

// Actuator does the work for one kind and type.
//
// The object passed is a copy. Changes to its status are written after the call, even after an error; all other changes
// are ignored, as are those to the fields of the status that the [Reconciler] maintains (lastOperation, lastError,
// observedGeneration). Cluster is nil for objects that belong to no Shoot. Every method may be called again at any time
// and must then continue where it left off.
type Actuator[T Object] interface {
	// Reconcile brings the external resources in line with the spec. It is called for the operations Create and Reconcile.
	Reconcile(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// Restore adopts the external resources after a migration, with the help of status.state, and then does what Reconcile
	// does.
	Restore(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// Migrate removes the extension's objects from this seed without touching external resources. Afterwards status.state
	// holds what Restore will need.
	Migrate(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// Delete deletes the external resources.
	Delete(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// ForceDelete abandons the external resources: it is called instead of Delete when a user has requested a forced
	// deletion.
	ForceDelete(ctx context.Context, obj T, cluster *Cluster) (Result, error)
}

// Validator may be implemented by an Actuator to check the provider-specific part of an object before Reconcile and
// Restore. Errors get the code ERR_CONFIGURATION_PROBLEM, for users to fix them, unless an internal error is among
// them.
type Validator[T Object] interface {
	Validate(ctx context.Context, obj T, cluster *Cluster) field.ErrorList
}

// Follower may be implemented by an Actuator whose objects may need another reconciliation after they have succeeded,
// because of changes made by others.
type Follower[T Object] interface {
	// FollowUp reports whether an object without a requested operation is to be reconciled. It is called on every event of
	// the watches, so it must be cheap when there is nothing to do, and must return false after a Reconcile.
	FollowUp(ctx context.Context, obj T) (bool, error)
}

// Result says whether an operation is complete. The zero value means that it is.
type Result struct {
	waiting string
	after   time.Duration
}

// Done says that the operation is complete.
func Done() Result { return Result{} }

// Waiting says that the operation continues when something that the actuator watches changes, or after the given time
// at the latest. The reason is shown to users.
func Waiting(reason string, after time.Duration) Result { return Result{waiting: reason, after: after} }

// IsDone reports whether the operation is complete.
func (r Result) IsDone() bool { return r.waiting == "" }

// Reason is why the operation is not complete, or "".
func (r Result) Reason() string { return r.waiting }

// After is the time after which to check again at the latest; zero when done.
func (r Result) After() time.Duration { return r.after }
