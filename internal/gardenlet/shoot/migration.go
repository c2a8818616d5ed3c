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
// could be recreated.
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

// keepsStart reports whether an operation continues with the start time of the previous one: extensions got their
// requests in the preparation of a move, and need no new ones.
func keepsStart(operation corev1beta1.LastOperationType, last *corev1beta1.LastOperation, started time.Time) bool {
	return operation == corev1beta1.LastOperationTypeRestore && !started.IsZero() &&
		last != nil && last.Type == corev1beta1.LastOperationTypeMigrate
}
