package shoot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// A garden that has been restored from a backup may be older than what its seeds have done since. The Cluster object in
// the seed has the Shoot as it was rolled out last, so the two can be compared.

// Remembered is the seed's record of a Shoot.
type Remembered struct {
	// Cluster: there is a Cluster object. Namespace: there is a control plane namespace; it matters only without a
	// Cluster.
	Cluster, Namespace bool
	// UID, Generation and Spec are those of the Shoot in the Cluster object.
	UID        types.UID
	Generation int64
	Spec       corev1beta1.ShootSpec
	// Started is the time at which the last operation began.
	Started time.Time
}

// Tasks in lastErrors of a Shoot that is on hold.
const (
	taskOlderSpec        = "compare-with-seed"
	taskLostControlPlane = "find-control-plane"
)

// hold says why nothing may be done for a Shoot until a user confirms it, "" if nothing speaks against it. A spec that
// is older than what was rolled out last would undo that: downgrade versions, delete pools, wake up or put to sleep.
func hold(shoot *corev1beta1.Shoot, seen *Remembered) (task, reason string) {
	if seen == nil || shoot.DeletionTimestamp != nil {
		return "", ""
	}
	switch {
	case !seen.Cluster && !seen.Namespace && operationType(shoot, false) == corev1beta1.LastOperationTypeReconcile:
		if confirmed(shoot, corev1beta1.AnnotationConfirmNewControlPlane) {
			return "", ""
		}
		return taskLostControlPlane, fmt.Sprintf("The control plane does not exist on Seed %q although it has been created. "+
			"The garden may have been restored from a backup that is older than the deletion or the move of the Shoot. "+
			"Delete the Shoot if it was deleted; to create a new, empty cluster set the annotation %s=true.",
			responsibleSeed(shoot), corev1beta1.AnnotationConfirmNewControlPlane)
	case !seen.Cluster || seen.UID != shoot.UID || equality.Semantic.DeepEqual(seen.Spec, shoot.Spec):
		return "", ""
	case confirmed(shoot, corev1beta1.AnnotationConfirmOlderSpec):
		return "", ""
	case shoot.Generation < seen.Generation || heldFor(shoot, taskOlderSpec):
		return taskOlderSpec, fmt.Sprintf("The specification is older (generation %d) than the one that was rolled out last "+
			"(generation %d): the garden has been restored from an older backup. Apply the newest specification, which is "+
			"in spec.shoot of Cluster %q in the seed; to roll out the older one set the annotation %s=true.",
			shoot.Generation, seen.Generation, shoot.Status.TechnicalID, corev1beta1.AnnotationConfirmOlderSpec)
	}
	return "", ""
}

// heldFor: the Shoot has been held before. Edits raise the generation of an older specification past the newer one.
func heldFor(shoot *corev1beta1.Shoot, task string) bool {
	return slices.ContainsFunc(shoot.Status.LastErrors,
		func(e corev1beta1.LastError) bool { return ptr.Deref(e.TaskID, "") == task })
}

func confirmed(shoot *corev1beta1.Shoot, annotation string) bool {
	on, err := strconv.ParseBool(shoot.Annotations[annotation])
	return err == nil && on
}

// olderStatus: the status is from before the last operation. Rotations, addresses and published credentials may be
// older, too; a reconciliation brings all of them up to date.
func olderStatus(shoot *corev1beta1.Shoot, seen *Remembered) bool {
	if seen == nil || !seen.Cluster || seen.UID != shoot.UID {
		return false
	}
	last := shoot.Status.LastOperation // Its time is in whole seconds.
	return last != nil && last.LastUpdateTime.Time.Before(seen.Started.Truncate(time.Second))
}

// wentBack: an update that makes a Shoot older, which only a restore of the garden does.
func wentBack(old, now *corev1beta1.Shoot) bool {
	before, after := old.Status.LastOperation, now.Status.LastOperation
	return now.Generation < old.Generation ||
		before != nil && (after == nil || after.LastUpdateTime.Time.Before(before.LastUpdateTime.Time))
}

// remember reads the seed's record of a Shoot, nil if it cannot have one yet.
func (r *Reconciler) remember(ctx context.Context, shoot *corev1beta1.Shoot) (*Remembered, error) {
	if shoot.Status.TechnicalID == "" || shoot.DeletionTimestamp != nil {
		return nil, nil
	}
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: shoot.Status.TechnicalID}}
	seen, err := &Remembered{}, error(nil)
	if seen.Cluster, err = kube.Exists(ctx, r.Seed, cluster); err != nil {
		return nil, err
	}
	if !seen.Cluster {
		seen.Namespace, err = kube.Exists(ctx, r.Seed, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name}})
		return seen, err
	}
	rolledOut := &corev1beta1.Shoot{}
	if err := json.Unmarshal(cluster.Spec.Shoot.Raw, rolledOut); err != nil {
		return nil, fmt.Errorf("read the Shoot in Cluster %q: %w", cluster.Name, err)
	}
	seen.UID, seen.Generation, seen.Spec = rolledOut.UID, rolledOut.Generation, rolledOut.Spec
	seen.Started, _ = time.Parse(time.RFC3339Nano, cluster.Annotations[annotationStarted])
	return seen, nil
}

// reportHeld says on the Shoot why nothing is done for it.
func (r *Reconciler) reportHeld(ctx context.Context, shoot *corev1beta1.Shoot, d Decision) error {
	before, now := shoot.DeepCopy(), r.Clock.Now()
	if !heldFor(shoot, d.Task) {
		shoot.Status.LastErrors = []corev1beta1.LastError{{
			TaskID: ptr.To(d.Task), Description: d.Reason, Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorConfigurationProblem},
			LastUpdateTime: &metav1.Time{Time: now},
		}}
	}
	if shoot.Status.LastOperation == nil {
		shoot.Status.LastOperation = &corev1beta1.LastOperation{}
	}
	shoot.Status.LastOperation.Type = d.Operation
	setOperation(&shoot.Status, corev1beta1.LastOperationStateFailed, shoot.Status.LastOperation.Progress, d.Reason, now)
	if err := kube.PatchStatus(ctx, r.Garden, shoot, before); err != nil {
		return err
	}
	r.recordEvent(before, shoot)
	return nil
}

// adopt gives a Shoot that is new to the garden the identities of the control plane that is there already, and with
// them its backups: the Shoot was created after the backup that the garden has been restored from, and has been created
// once more.
func (r *Reconciler) adopt(ctx context.Context, shoot *corev1beta1.Shoot, id string, clusterExists bool) error {
	if shoot.Status.UID != "" || !clusterExists {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id}}
	found, err := kube.Exists(ctx, r.Seed, namespace)
	uid := namespace.Annotations[corev1beta1.AnnotationShootUID]
	if err != nil || !found || namespace.DeletionTimestamp != nil || uid == "" || uid == string(shoot.UID) {
		return err
	}
	cluster, rolledOut := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: id}}, &corev1beta1.Shoot{}
	if err := r.Seed.Get(ctx, types.NamespacedName{Name: id}, cluster); err != nil {
		return fmt.Errorf("read Cluster %q: %w", id, err)
	}
	if err := json.Unmarshal(cluster.Spec.Shoot.Raw, rolledOut); err != nil {
		return fmt.Errorf("read the Shoot in Cluster %q: %w", id, err)
	}
	shoot.Status.UID, shoot.Status.ClusterIdentity = types.UID(uid), rolledOut.Status.ClusterIdentity
	r.Events.Eventf(shoot, nil, corev1.EventTypeNormal, "ControlPlaneAdopted", "Reconcile",
		"Adopting the control plane in namespace %s of the seed, which belonged to a Shoot that the garden does not know any more.", id)
	return nil
}
