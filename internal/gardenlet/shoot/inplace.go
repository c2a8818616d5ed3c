package shoot

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/poolhash"
	"hortus.dev/hortus/internal/kube"
)

// pendingUpdates are the pools whose machines do not run the versions in the Shoot's spec, by strategy. The Worker
// records by hash what the machines of a pool run; a pool that it does not know yet is being created and needs no
// update.
func pendingUpdates(shoot *corev1beta1.Shoot, hashes map[string]string) (auto, manual []string, err error) {
	for i := range shoot.Spec.Provider.Workers {
		w := &shoot.Spec.Provider.Workers[i]
		strategy := ptr.Deref(w.UpdateStrategy, corev1beta1.AutoRollingUpdate)
		have, known := hashes[w.Name]
		if strategy == corev1beta1.AutoRollingUpdate || !known {
			continue
		}
		want, err := poolhash.InPlace(poolhash.FromShoot(shoot, w))
		if err != nil {
			return nil, nil, fmt.Errorf("worker pool %q: %w", w.Name, err)
		}
		switch {
		case want == have:
		case strategy == corev1beta1.ManualInPlaceUpdate:
			manual = append(manual, w.Name)
		default:
			auto = append(auto, w.Name)
		}
	}
	return auto, manual, nil
}

// setPending writes the lists to the status; nothing pending leaves no trace.
func setPending(shoot *corev1beta1.Shoot, auto, manual []string) {
	if len(auto) == 0 && len(manual) == 0 {
		shoot.Status.InPlaceUpdates = nil
		return
	}
	shoot.Status.InPlaceUpdates = &corev1beta1.InPlaceUpdatesStatus{
		PendingWorkerUpdates: &corev1beta1.PendingWorkerUpdates{AutoInPlaceUpdate: auto, ManualInPlaceUpdate: manual},
	}
}

// poolHashes reads the hashes that the machines of pools run, from the status of the Worker.
func (r *Reconciler) poolHashes(
	ctx context.Context, shoot *corev1beta1.Shoot, namespace string,
) (map[string]string, error) {
	worker := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: shoot.Name}}
	if _, err := kube.Exists(ctx, r.Seed, worker); err != nil {
		return nil, err
	}
	if worker.Status.InPlaceUpdates == nil {
		return nil, nil
	}
	return worker.Status.InPlaceUpdates.WorkerPoolToHashMap, nil
}

// startInPlaceUpdates records which pools are about to be updated. Pools that are pending already stay so. A Shoot that
// sleeps has no machines to update: it wakes up with new ones.
func (r *Reconciler) startInPlaceUpdates(ctx context.Context, shoot *corev1beta1.Shoot, namespace string) error {
	if !slices.ContainsFunc(shoot.Spec.Provider.Workers, func(w corev1beta1.Worker) bool {
		return ptr.Deref(w.UpdateStrategy, corev1beta1.AutoRollingUpdate) != corev1beta1.AutoRollingUpdate
	}) {
		return nil
	}
	if asleep(shoot) {
		setPending(shoot, nil, nil)
		return nil
	}
	hashes, err := r.poolHashes(ctx, shoot, namespace)
	if err != nil {
		return err
	}
	auto, manual, err := pendingUpdates(shoot, hashes)
	if err != nil {
		return err
	}
	setPending(shoot, auto, manual)
	return nil
}

// finishInPlaceUpdates clears what a successful reconciliation has brought to all machines; pools that users update by
// hand stay until they have, or until the hibernation of the Shoot has deleted their machines.
func (r *Reconciler) finishInPlaceUpdates(ctx context.Context, shoot *corev1beta1.Shoot, hibernated bool) error {
	u := shoot.Status.InPlaceUpdates
	if u == nil || u.PendingWorkerUpdates == nil {
		return nil
	}
	if hibernated {
		setPending(shoot, nil, nil)
		return r.dropForce(ctx, shoot)
	}
	hashes, err := r.poolHashes(ctx, shoot, shoot.Status.TechnicalID)
	if err != nil {
		return err
	}
	_, manual, err := pendingUpdates(shoot, hashes)
	if err != nil {
		return err
	}
	setPending(shoot, nil, manual)
	return r.dropForce(ctx, shoot)
}

// updateManualPools follows the progress of users who update pools by hand, while nothing else happens to the Shoot.
// When the last pool is done, a rotation that waited for it can continue. The reconciliation is requested first: after
// a stop before the second write the pools are still pending, and are looked at again.
func (r *Reconciler) updateManualPools(ctx context.Context, shoot *corev1beta1.Shoot) error {
	if !waitsForManualPools(shoot) || !finished(shoot) {
		return nil
	}
	before := shoot.DeepCopy()
	if err := r.finishInPlaceUpdates(ctx, shoot, asleep(shoot)); err != nil {
		return err
	}
	if shoot.Status.InPlaceUpdates == nil && rotationWaits(shoot) {
		if err := r.requestReconciliation(ctx, client.ObjectKeyFromObject(shoot)); err != nil {
			return err
		}
	}
	before.ObjectMeta = *shoot.ObjectMeta.DeepCopy() // Operations have been written.
	return kube.PatchStatus(ctx, r.Garden, shoot, before)
}

// requestReconciliation adds the operation to those that are requested of the Shoot.
func (r *Reconciler) requestReconciliation(ctx context.Context, key client.ObjectKey) error {
	latest := &corev1beta1.Shoot{} // Operations may have been added or removed since.
	if err := r.Garden.Get(ctx, key, latest); err != nil {
		return client.IgnoreNotFound(err)
	}
	operations := operationsOf(latest)
	if slices.Contains(operations, corev1beta1.OperationReconcile) {
		return nil
	}
	target := latest.DeepCopy()
	if target.Annotations == nil {
		target.Annotations = map[string]string{}
	}
	setOperations(target, append(operations, corev1beta1.OperationReconcile))
	lock := client.MergeFromWithOptimisticLock{}
	if err := r.Garden.Patch(ctx, target, client.MergeFromWithOptions(latest, lock)); err != nil {
		return fmt.Errorf("request a reconciliation: %w", err)
	}
	return nil
}

// asleep: the Shoot is hibernated and stays so.
func asleep(shoot *corev1beta1.Shoot) bool {
	return shoot.HibernationEnabled() && shoot.Status.IsHibernated
}

func waitsForManualPools(shoot *corev1beta1.Shoot) bool {
	u := shoot.Status.InPlaceUpdates
	return u != nil && u.PendingWorkerUpdates != nil && len(u.PendingWorkerUpdates.ManualInPlaceUpdate) > 0
}

func finished(shoot *corev1beta1.Shoot) bool {
	op := shoot.Status.LastOperation
	return op != nil && op.State == corev1beta1.LastOperationStateSucceeded && shoot.DeletionTimestamp == nil
}

// rotationWaits reports whether a rotation could not be finished because of pools that were pending.
func rotationWaits(shoot *corev1beta1.Shoot) bool {
	c := shoot.Status.Credentials
	if c == nil || c.Rotation == nil {
		return false
	}
	waits := func(phase corev1beta1.CredentialsRotationPhase, pending []corev1beta1.PendingWorkersRollout) bool {
		return len(pending) == 0 && (phase == corev1beta1.RotationPreparing ||
			phase == corev1beta1.RotationWaitingForWorkersRollout)
	}
	ca, key := c.Rotation.CertificateAuthorities, c.Rotation.ServiceAccountKey
	return ca != nil && waits(ca.Phase, ca.PendingWorkersRollouts) || key != nil &&
		waits(key.Phase, key.PendingWorkersRollouts)
}

// dropForce removes the permission to change pools in the middle of an update once nothing is pending.
func (r *Reconciler) dropForce(ctx context.Context, shoot *corev1beta1.Shoot) error {
	if shoot.Status.InPlaceUpdates != nil ||
		shoot.Annotations[corev1beta1.AnnotationOperation] != corev1beta1.OperationForceInPlaceUpdate {
		return nil
	}
	target := shoot.DeepCopy()
	delete(target.Annotations, corev1beta1.AnnotationOperation)
	// Only this operation is removed, not one that is requested meanwhile.
	lock := client.MergeFromWithOptimisticLock{}
	if err := r.Garden.Patch(ctx, target, client.MergeFromWithOptions(shoot, lock)); err != nil {
		return fmt.Errorf("remove operation %q: %w", corev1beta1.OperationForceInPlaceUpdate, err)
	}
	delete(shoot.Annotations, corev1beta1.AnnotationOperation)
	shoot.ResourceVersion = target.ResourceVersion
	return nil
}
