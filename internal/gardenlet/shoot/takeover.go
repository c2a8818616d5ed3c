package shoot

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
)

// takenOverHere reports whether this seed is to take the control plane over from one that is gone. No program decides
// that a seed is gone: an operator does, by an annotation of the binding.
func takenOverHere(shoot *corev1beta1.Shoot, seed string) bool {
	return shoot.SourceIsDead() && migrating(shoot) && ptr.Deref(shoot.Spec.SeedName, "") == seed
}

// takeOver makes this seed the owner of a control plane whose seed is gone: first for those who read the Lease, then
// for users. From then on it is restored as after a hand-over, or created if there is nothing to restore it from. The
// word that the seed is gone stays on the Shoot until then: such a Shoot can be deleted.
func (r *Reconciler) takeOver(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	ready := corev1beta1.FindCondition(shoot.Status.Constraints, corev1beta1.ShootReadyForMigration)
	if ready == nil || ready.Status != corev1beta1.ConditionTrue {
		return reconcile.Result{RequeueAfter: seedPeriod}, nil // The constraint says what is missing.
	}
	seed := &corev1beta1.Seed{}
	if err := r.Cache.Get(ctx, client.ObjectKey{Name: r.SeedName}, seed); err != nil {
		return reconcile.Result{}, fmt.Errorf("read Seed %q: %w", r.SeedName, err)
	}
	if seed.EmergencyStop() {
		return reconcile.Result{RequeueAfter: seedPeriod}, nil
	}
	from, before := *shoot.Status.SeedName, shoot.DeepCopy()
	claim, err := ownership.Change(ctx, r.Garden, shoot, r.Clock.Now(), func(c ownership.Claim) ownership.Claim {
		return c.TakeFrom(from, r.SeedName, r.FenceTime)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := ownership.Leave(ctx, r.Garden, from, shoot.UID, claim, r.Clock.Now()); err != nil {
		return reconcile.Result{}, err
	}
	next, err := r.takenOverAs(ctx, shoot)
	if err != nil {
		return reconcile.Result{}, err
	}
	shoot.Status.SeedName = ptr.To(r.SeedName)
	shoot.Status.MigrationStartTime = &metav1.Time{Time: r.Clock.Now()}
	shoot.Status.LastErrors = nil
	next.LastUpdateTime = metav1.Time{Time: r.Clock.Now()}
	shoot.Status.LastOperation = &next
	target := shoot.DeepCopy()
	if err := r.Garden.Status().Patch(ctx, target,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, fmt.Errorf("take over Shoot %s/%s: %w", shoot.Namespace, shoot.Name, err)
	}
	log.FromContext(ctx).Info("Took the control plane over from a Seed that is gone", "from", from,
		"operation", next.Type, "description", next.Description)
	r.recordEvent(before, target)
	return reconcile.Result{RequeueAfter: planPeriod}, nil
}

// takenOverAs is the last operation of a Shoot that this seed takes over, from which the next one follows.
func (r *Reconciler) takenOverAs(ctx context.Context, shoot *corev1beta1.Shoot) (corev1beta1.LastOperation, error) {
	from, last := *shoot.Status.SeedName, shoot.Status.LastOperation
	switch {
	case shoot.DeletionTimestamp == nil && beingCreated(shoot):
		state, err := shootstate.Load(ctx, r.Garden, shoot)
		if err != nil {
			return corev1beta1.LastOperation{}, err
		}
		if state != nil && state.HasCredentials() {
			break
		}
		return corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateProcessing,
			Description: fmt.Sprintf("Seed %s is gone, and has saved no credentials. Seed %s creates the control plane.", from,
				r.SeedName),
		}, nil
	case shoot.DeletionTimestamp != nil && last != nil && last.Type == corev1beta1.LastOperationTypeDelete:
		// A deletion releases the backups last.
		entry := &corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{
			Namespace: shoot.Namespace, Name: shoot.Status.TechnicalID + "--" + string(shoot.Status.UID),
		}}
		if _, err := kube.Exists(ctx, r.Garden, entry); err != nil {
			return corev1beta1.LastOperation{}, err
		}
		if entry.DeletionTimestamp == nil {
			break
		}
		return corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationTypeDelete, State: corev1beta1.LastOperationStateProcessing,
			Description: fmt.Sprintf("Seed %s is gone, after it had deleted everything. Seed %s ends the deletion.", from,
				r.SeedName),
		}, nil
	}
	return corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeMigrate, State: corev1beta1.LastOperationStateSucceeded, Progress: 100,
		Description: fmt.Sprintf("Seed %s is gone. Seed %s takes the control plane over.", from, r.SeedName),
	}, nil
}

// lost says what a control plane has lost that was taken over from a seed that is gone; "" for any other.
func lost(t ownership.TakenOver) string {
	switch {
	case t.Unconfirmed.IsZero(): // Nothing was taken over, or the Shoot is hibernated and has not been restored.
		return ""
	case t.Stored.IsZero():
		return fmt.Sprintf(" It was taken over from Seed %s, which is gone. What etcd had not stored in its backups there is lost.", t.From)
	}
	return fmt.Sprintf(" It was taken over from Seed %s, which is gone. etcd was restored to revision %d, stored at %s. What was acknowledged there after that is lost.",
		t.From, t.Revision, t.Stored.UTC().Format(time.RFC3339))
}

// leave declares to a seed that was lost when this one took the control plane over that its remains can be deleted. The
// Lease of the Shoot has the same information, but is deleted with the Shoot.
func (r *Reconciler) leave(ctx context.Context, s *scope) error {
	from := s.claim.TakenOver.From
	if from == "" || s.claim.Holder != r.SeedName {
		return nil
	}
	return ownership.Leave(ctx, r.Garden, from, s.shoot.UID, s.claim.Settle(r.SeedName, r.FenceTime), r.Clock.Now())
}
