package extension

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Object constrains type parameters to pointers to kinds of the contract.
type Object = extensionsv1alpha1.Object

// Actuator does the work for one kind and type.
//
// The object given is a copy. Changes to its status are written after the call, also after an error; the parts of the
// status that the [Reconciler] keeps (lastOperation, lastError, observedGeneration) and all other changes are ignored.
// Cluster is nil for objects that belong to no Shoot. Every method may be called again at any time and must then take
// up where it was.
type Actuator[T Object] interface {
	// Reconcile brings the outside in line with the spec. It is called for the operations Create and Reconcile.
	Reconcile(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// Restore takes over the outside after a migration, with the help of status.state, and then does what Reconcile does.
	Restore(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// Migrate removes from this seed what the extension keeps in it, without touching the outside. Afterwards status.state
	// holds what Restore will need.
	Migrate(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// Delete removes the outside.
	Delete(ctx context.Context, obj T, cluster *Cluster) (Result, error)
	// ForceDelete forgets the outside: it is called instead of Delete when a user has given up on it.
	ForceDelete(ctx context.Context, obj T, cluster *Cluster) (Result, error)
}

// Validator may be implemented by an Actuator to check the provider's part of an object before Reconcile and Restore.
// Errors are the user's to fix unless an internal error is among them.
type Validator[T Object] interface {
	Validate(ctx context.Context, obj T, cluster *Cluster) field.ErrorList
}

// Follower may be implemented by an Actuator whose objects need it again after they have succeeded, because of what
// others have done meanwhile.
type Follower[T Object] interface {
	// FollowUp tells whether an object that nothing was asked of is to be reconciled. It is called on every event of the
	// watches, so it must be cheap when there is nothing to do, and false after a Reconcile.
	FollowUp(ctx context.Context, obj T) (bool, error)
}

// Result says whether an operation is complete. The zero value means done.
type Result struct {
	waiting string
	after   time.Duration
}

// Done says that the operation is complete.
func Done() Result { return Result{} }

// Waiting says that the operation goes on when something changes that the actuator watches, or after the given time at
// the latest. The reason is shown to users.
func Waiting(reason string, after time.Duration) Result { return Result{waiting: reason, after: after} }

// IsDone reports whether the operation is complete.
func (r Result) IsDone() bool { return r.waiting == "" }

// Reason is why the operation is not complete, or "".
func (r Result) Reason() string { return r.waiting }

// After is when to look again at the latest; zero when done.
func (r Result) After() time.Duration { return r.after }
