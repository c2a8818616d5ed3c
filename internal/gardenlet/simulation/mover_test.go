package simulation

import (
	"context"
	"errors"
	"maps"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
)

// movePause is between the steps of a move.
const movePause = time.Second

// mover does to the ShootState and to a seed what the controller of Shoots does in a move: it is next to the controller
// of ShootStates in the same gardenlet.
type mover struct {
	*stateRun
	name         string // Of its seed.
	garden, seed client.Client
	states       *shootstate.States
}

func (m *mover) addToManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mover").For(&corev1beta1.Shoot{}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), m))
}

// Reconcile makes one step of a move.
func (m *mover) Reconcile(ctx context.Context, s *corev1beta1.Shoot) (reconcile.Result, error) {
	if err := m.garden.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	moving, _ := lastOperationIs(s, corev1beta1.LastOperationTypeMigrate)
	var err error
	switch {
	case ptr.Deref(s.Status.SeedName, "") != m.name || s.DeletionTimestamp != nil:
		return reconcile.Result{}, nil
	case arriving(s):
		err = m.restore(ctx, s)
	case !ptr.Equal(s.Status.SeedName, s.Spec.SeedName):
		err = m.migrate(ctx, s, moving)
	case moving: // The move was cancelled.
		err = m.restore(ctx, s)
	default:
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: movePause}, err
}

// report writes the last operation, unless somebody else has written the Shoot.
func (m *mover) report(
	ctx context.Context, s *corev1beta1.Shoot, t corev1beta1.LastOperationType, state corev1beta1.LastOperationState,
	change func(*corev1beta1.ShootStatus),
) error {
	before := s.DeepCopy()
	s.Status.LastOperation = &corev1beta1.LastOperation{
		Type: t, State: state, LastUpdateTime: metav1.NewTime(m.Clock().Now()),
	}
	change(&s.Status)
	return m.garden.Status().Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// migrate stops the extensions, saves their state, the last one at the end, and gives the control plane away.
func (m *mover) migrate(ctx context.Context, s *corev1beta1.Shoot, begun bool) error {
	const migrate = corev1beta1.LastOperationTypeMigrate
	if !begun {
		now := metav1.NewTime(m.Clock().Now())
		return m.report(ctx, s, migrate, corev1beta1.LastOperationStateProcessing,
			func(status *corev1beta1.ShootStatus) { status.MigrationStartTime = &now })
	}
	for _, one := range []struct {
		part string
		seal func(context.Context, *corev1beta1.Shoot) (bool, error)
	}{{partInfra, m.states.Seal}, {partLate, m.states.SealLast}} {
		if err := m.freeze(ctx, one.part); err != nil {
			return err
		}
		m.sealed = "" // The last state may follow.
		sealed, err := one.seal(ctx, s)
		if err != nil || !sealed {
			return err
		}
		state := stateOfMoved()
		if !m.stateRun.garden.Exists(state) {
			return errors.New("a state that does not exist is sealed")
		}
		m.sealed = specOf(state)
	}
	if err := empty(ctx, m.seed); err != nil {
		return err
	}
	return m.report(ctx, s, migrate, corev1beta1.LastOperationStateSucceeded,
		func(status *corev1beta1.ShootStatus) { status.SeedName = s.Spec.SeedName })
}

// freeze makes the extension of a part stop acting.
func (m *mover) freeze(ctx context.Context, part string) error {
	o := extensionWith(part)
	if err := m.seed.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := o.DeepCopyObject().(client.Object)
	o.SetAnnotations(map[string]string{frozen: "true"})
	return m.seed.Patch(ctx, o, client.MergeFrom(before))
}

// restore creates on this seed what the ShootState has, and compares the result with what it was.
func (m *mover) restore(ctx context.Context, s *corev1beta1.Shoot) error {
	const restore = corev1beta1.LastOperationTypeRestore
	if begun, _ := lastOperationIs(s, restore); !begun {
		return m.report(ctx, s, restore, corev1beta1.LastOperationStateProcessing, func(*corev1beta1.ShootStatus) {})
	}
	saved, err := shootstate.Load(ctx, m.garden, s)
	if err != nil {
		return err
	}
	if saved == nil || !saved.HasCredentials() {
		m.problem = errors.New("there is nothing to restore from")
		return m.problem
	}
	if err := errors.Join(saved.CreateSecrets(ctx, m.seed, controlPlane),
		saved.CreateResources(ctx, m.seed, controlPlane)); err != nil {
		return err
	}
	for _, part := range []string{partInfra, partLate} {
		if err := m.restoreExtension(ctx, saved, part); err != nil {
			return err
		}
	}
	machines, err := worker.DecodeState(saved.Machines())
	if err != nil {
		return err
	}
	deployment := named[machinev1alpha1.MachineDeployment](controlPlane, pool)
	if found, err := kube.Exists(ctx, m.seed, deployment); err != nil {
		return err
	} else if !found { // After a move that was cancelled, the machines here are newer.
		var objects []client.Object
		for _, machine := range machines[pool].Machines {
			objects = append(objects, &machine)
		}
		for _, o := range append(objects, deployment) {
			if err := client.IgnoreAlreadyExists(m.seed.Create(ctx, o)); err != nil {
				return err
			}
		}
	}
	if have := m.contents(m.seeds[m.name]); !maps.Equal(have, m.truth) {
		m.problem = errors.Join(m.problem, is(false, "seed %s has restored %v, wanted %v", m.name, have, m.truth))
	}
	m.sealed = ""
	return m.report(ctx, s, restore, corev1beta1.LastOperationStateSucceeded,
		func(status *corev1beta1.ShootStatus) { status.MigrationStartTime = nil })
}

func (m *mover) restoreExtension(ctx context.Context, saved *shootstate.Saved, part string) error {
	o := extensionWith(part)
	if err := client.IgnoreAlreadyExists(m.seed.Create(ctx, o)); err != nil {
		return err
	}
	if err := m.seed.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	if state, _ := saved.StateOfObject(o); o.GetDefaultStatus().State == nil {
		if err := writeState(ctx, m.seed, o, state, part); err != nil {
			return err
		}
	}
	before := o.DeepCopyObject().(extensionsv1alpha1.Object)
	o.SetAnnotations(nil)
	return m.seed.Patch(ctx, o, client.MergeFrom(before))
}
