package shoot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
	"hortus.dev/hortus/internal/secretsmanager"
)

// comesHere reports whether another seed is handing the control plane over to this one.
func comesHere(shoot *corev1beta1.Shoot, seed string) bool {
	last := shoot.Status.LastOperation
	return migrating(shoot) && ptr.Deref(shoot.Spec.SeedName, "") == seed && shoot.DeletionTimestamp == nil &&
		last != nil && last.Type == corev1beta1.LastOperationTypeMigrate
}

// takenOverHere reports whether this seed is to take the control plane over from one that is gone.
func takenOverHere(shoot *corev1beta1.Shoot, seed string) bool {
	return shoot.SourceIsDead() && migrating(shoot) && ptr.Deref(shoot.Spec.SeedName, "") == seed
}

// takeOver makes this seed the owner of a control plane whose seed is gone: first for those who ask the Lease, then for
// users. From then on it is restored as after a hand-over, or created if there is nothing to restore it from. The word
// that the seed is gone stays on the Shoot until then: such a Shoot can be deleted.
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

// prepareMove makes one pass of the flow by which this seed prepares for a control plane that another one still runs.
// The status of the Shoot belongs to that one, which shows users what this one waits for.
func (r *Reconciler) prepareMove(ctx context.Context, shoot *corev1beta1.Shoot) (reconcile.Result, error) {
	claim, err := ownership.Read(ctx, r.Garden, shoot.Namespace, shoot.UID)
	if err != nil || claim.Called != r.SeedName || claim.Prepared == r.SeedName {
		return reconcile.Result{}, err
	}
	s := &scope{shoot: shoot, seed: &corev1beta1.Seed{}, claim: claim}
	if err := r.Cache.Get(ctx, client.ObjectKey{Name: r.SeedName}, s.seed); err != nil {
		return reconcile.Result{}, fmt.Errorf("read Seed %q: %w", r.SeedName, err)
	}
	result, err := r.preparePass(ctx, s)
	if err == nil && result.Complete() {
		log.FromContext(ctx).Info("Prepared for the control plane of another seed", "source", *shoot.Status.SeedName)
		r.forget(shoot.UID)
		_, err := ownership.Change(ctx, r.Garden, shoot, r.Clock.Now(),
			func(c ownership.Claim) ownership.Claim { return c.Answer(r.SeedName) })
		return reconcile.Result{}, ignoreConflict(err)
	}
	progress := describe(result)
	for _, f := range result.Failed {
		err = errors.Join(err, fmt.Errorf("%s: %w", f.Step, f.Err))
	}
	if err != nil {
		progress = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	_, writeErr := ownership.Change(ctx, r.Garden, shoot, r.Clock.Now(), func(c ownership.Claim) ownership.Claim {
		return c.Report(r.SeedName, progress)
	})
	if err := errors.Join(err, ignoreConflict(writeErr)); err != nil {
		return reconcile.Result{}, err
	}
	if result.Recheck > 0 {
		return reconcile.Result{RequeueAfter: result.Recheck}, nil
	}
	return reconcile.Result{RequeueAfter: passPeriod}, nil
}

// ignoreConflict: the other seed has written, and the next pass reads what.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (r *Reconciler) preparePass(ctx context.Context, s *scope) (flow.Result, error) {
	const operation = corev1beta1.LastOperationTypeRestore
	if s.seed.EmergencyStop() {
		return flow.Result{}, fmt.Errorf("reconciliations are stopped on seed %q", s.seed.Name)
	}
	if err := r.read(ctx, s); err != nil {
		return flow.Result{}, err
	}
	if err := seedReady(s.seed, r.Identity.Version); err != nil {
		return flow.Result{}, err
	}
	id := s.shoot.Status.TechnicalID
	began, err := readBeginning(ctx, r.Seed, id)
	if err != nil {
		return flow.Result{}, err
	}
	if began.At.Before(s.claim.ChangedAt) && s.claim.Progress == "" { // The record is from an earlier time on this seed.
		began = beginning{At: r.Clock.Now(), Tasks: tasksOf(s.shoot)}
	}
	if err := r.openState(ctx, s, id); err != nil {
		return flow.Result{}, err
	}
	cluster, err := desiredCluster(id, s.shoot, s.seed, s.profile, began)
	if err != nil {
		return flow.Result{}, err
	}
	if err := writeCluster(ctx, r.Seed, cluster); err != nil {
		return flow.Result{}, err
	}
	stepScope, err := r.stepScope(ctx, s, operation, began)
	if err != nil {
		return flow.Result{}, err
	}
	return flow.Run(ctx, steps.Prepare(), stepScope, r.flowOptions(s.shoot, flowPrepare)), nil
}

// openState reads what the garden has kept of a control plane, and puts its credentials into the namespace before any
// could be made anew.
func (r *Reconciler) openState(ctx context.Context, s *scope, id string) error {
	shoot := s.shoot
	state, err := shootstate.Load(ctx, r.Garden, shoot)
	if err != nil {
		return err
	}
	switch {
	case shoot.DeletionTimestamp != nil: // Missing objects are created again, so that everything can be found and deleted.
	case state == nil:
		return fmt.Errorf("there is no ShootState %s/%s, from which the control plane could be restored", shoot.Namespace,
			shoot.Name)
	case !state.HasCredentials():
		return fmt.Errorf("ShootState %s/%s has no credentials, without which the nodes could not join", shoot.Namespace,
			shoot.Name)
	}
	s.state = state
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id}}
	found, err := kube.Exists(ctx, r.Seed, namespace)
	if err != nil {
		return err
	}
	if found && namespace.Status.Phase == corev1.NamespaceTerminating {
		return fmt.Errorf("namespace %q of an earlier control plane is still being deleted", id)
	}
	if !found {
		// The step adds the parts that depend on registrations.
		namespace := steps.NamespaceFor(s.shoot, s.seed, nil, id, nil)
		if err := kube.Apply(ctx, r.Seed, namespace, steps.FieldOwner); err != nil {
			return err
		}
	}
	s.namespace = kube.NewNamespaceView(r.Seed, id, &r.seen)
	if state != nil {
		if err := state.CreateSecrets(ctx, s.namespace, id); err != nil {
			return err
		}
	}
	s.secrets, err = r.openSecrets(ctx, s.namespace, id)
	return err
}

// openSecrets reads the generated Secrets of a control plane namespace.
func (r *Reconciler) openSecrets(
	ctx context.Context, view *kube.NamespaceView, id string,
) (*secretsmanager.Manager, error) {
	m, err := secretsmanager.New(ctx, view, r.Clock, id, steps.SecretsIdentity)
	if err == nil && r.RSABits > 0 {
		m.RSABits = r.RSABits
	}
	return m, err
}

// claimFor takes the ownership of a control plane that this seed is to run, before anything could write, and only reads
// it while the control plane is being handed over.
func (r *Reconciler) claimFor(
	ctx context.Context, shoot *corev1beta1.Shoot, namespace string, operation corev1beta1.LastOperationType,
) (ownership.Claim, error) {
	if operation == corev1beta1.LastOperationTypeMigrate {
		return ownership.Read(ctx, r.Garden, shoot.Namespace, shoot.UID)
	}
	epoch, err := steps.RunningEpoch(ctx, r.Seed, namespace)
	if err != nil {
		return ownership.Claim{}, err
	}
	return ownership.Change(ctx, r.Garden, shoot, r.Clock.Now(), func(c ownership.Claim) ownership.Claim {
		return c.Take(r.SeedName, r.FenceTime).AtLeast(epoch).CalledOff()
	})
}

// settle declares to former seeds of the control plane that they can delete their leftovers. From whom it was taken is
// forgotten with the next operation, when the end of this one has been written.
func (r *Reconciler) settle(ctx context.Context, s *scope, operation corev1beta1.LastOperationType) error {
	settled := func(c ownership.Claim) ownership.Claim {
		c = c.Settle(r.SeedName, r.FenceTime)
		if operation != corev1beta1.LastOperationTypeRestore {
			c = c.Forget()
		}
		return c
	}
	if settled(s.claim) == s.claim {
		return nil
	}
	if err := r.leave(ctx, s); err != nil {
		return err
	}
	_, err := ownership.Change(ctx, r.Garden, s.shoot, r.Clock.Now(), settled)
	return err
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

// keepsStart reports whether an operation continues with the start time of the previous one: extensions got their
// requests in the preparation of a move, and need no new ones.
func keepsStart(operation corev1beta1.LastOperationType, last *corev1beta1.LastOperation, started time.Time) bool {
	return operation == corev1beta1.LastOperationTypeRestore && !started.IsZero() &&
		last != nil && last.Type == corev1beta1.LastOperationTypeMigrate
}
