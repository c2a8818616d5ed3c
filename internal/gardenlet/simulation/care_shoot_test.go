package simulation

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/test/sim"
)

const (
	created    = corev1beta1.LastOperationTypeCreate
	reconciled = corev1beta1.LastOperationTypeReconcile
	deleted    = corev1beta1.LastOperationTypeDelete
	migrated   = corev1beta1.LastOperationTypeMigrate
	restored   = corev1beta1.LastOperationTypeRestore
	succeeded  = corev1beta1.LastOperationStateSucceeded
	processing = corev1beta1.LastOperationStateProcessing
)

// operator stands for the controller that makes, changes and deletes the control plane of the Shoot in a seed. It
// writes the same status as care, like the real reconciler: without a lock, conditions included.
type operator struct {
	*careWorld
	client   client.Client
	seedName string
}

func (o *operator) addTo(p *sim.Process) error {
	return ctrl.NewControllerManagedBy(p).Named("shoot").For(&corev1beta1.Shoot{}).
		Complete(reconcile.AsReconciler(p.GetClient(), o))
}

// Reconcile makes one step of an operation.
func (o *operator) Reconcile(ctx context.Context, s *corev1beta1.Shoot) (reconcile.Result, error) {
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	kind, before, now := o.due(s), s.DeepCopy(), o.Clock().Now()
	if kind == "" {
		return reconcile.Result{}, nil
	}
	last := s.Status.LastOperation
	next := &corev1beta1.LastOperation{Type: kind, State: processing, LastUpdateTime: metav1.NewTime(now)}
	switch {
	case last == nil || last.Type != kind || last.State == succeeded:
		s.Status.TechnicalID, s.Status.ObservedGeneration = controlPlane, s.Generation
		if kind != deleted && kind != migrated {
			s.Status.SeedName = s.Spec.SeedName
		}
	case kind == reconciled && o.causes[operationFails]:
		next.State, next.Progress = corev1beta1.LastOperationStateError, last.Progress
		s.Status.LastErrors = []corev1beta1.LastError{{Description: "the infrastructure fails"}}
		if last.State == next.State {
			next.LastUpdateTime = last.LastUpdateTime
		}
	case last.Progress < 60:
		next.Progress, s.Status.LastErrors = last.Progress+30, nil
	default:
		if err := o.complete(s, kind, now); err != nil {
			return reconcile.Result{}, err
		}
		next.State, next.Progress, s.Status.LastErrors = succeeded, 100, nil
	}
	s.Status.LastOperation = next
	if err := kube.PatchStatus(ctx, o.client, s, before); err != nil {
		return reconcile.Result{}, err
	}
	if kind == deleted && next.State == succeeded {
		gone := s.DeepCopy()
		gone.Finalizers = nil
		return reconcile.Result{}, client.IgnoreNotFound(o.client.Patch(ctx, gone, client.MergeFrom(s)))
	}
	if next.State == succeeded {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: 15 * time.Second}, nil
}

// due is the operation that is in progress, or that begins; "" for none.
func (o *operator) due(s *corev1beta1.Shoot) corev1beta1.LastOperationType {
	last, here := s.Status.LastOperation, ptr.Deref(s.Spec.SeedName, "") == o.seedName
	switch on := ptr.Deref(s.Status.SeedName, ""); {
	case on == "" && here:
		return created
	case on != o.seedName:
		return ""
	case s.DeletionTimestamp != nil:
		return deleted
	case last.State != succeeded:
		return last.Type
	case !here:
		return migrated
	case last.Type == migrated:
		return restored
	case s.Generation != s.Status.ObservedGeneration:
		return reconciled
	}
	return ""
}

// complete makes the control plane as the operation leaves it.
func (o *operator) complete(s *corev1beta1.Shoot, kind corev1beta1.LastOperationType, now time.Time) error {
	seed := o.seeds[o.seedName]
	seed.exists, seed.scaled = kind != deleted && kind != migrated, hibernationOf(s)
	switch kind {
	case migrated:
		s.Status.SeedName = s.Spec.SeedName
	case deleted:
	default:
		s.Status.IsHibernated = seed.scaled
		awaitCare(s.Status.Conditions, now)
		awaitCare(s.Status.Constraints, now)
	}
	return o.show()
}

// awaitCare makes conditions Progressing until care has judged the result of the operation.
func awaitCare(conditions []corev1beta1.Condition, now time.Time) {
	for i := range conditions {
		c := &conditions[i]
		if (slices.Contains(careTypes, c.Type) || slices.Contains(judgedConstraints, c.Type)) &&
			c.Status != corev1beta1.ConditionFalse && c.Status != corev1beta1.ConditionProgressing {
			c.Status = corev1beta1.ConditionProgressing
			c.LastTransitionTime, c.LastUpdateTime = metav1.NewTime(now), metav1.NewTime(now)
		}
	}
}
