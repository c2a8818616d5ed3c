package shoot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

// operationsOf reads the operation annotation.
func operationsOf(shoot *corev1beta1.Shoot) []string {
	var out []string
	for _, op := range strings.Split(shoot.Annotations[corev1beta1.AnnotationOperation], corev1beta1.OperationSeparator) {
		if op = strings.TrimSpace(op); op != "" {
			out = append(out, op)
		}
	}
	return out
}

// consumable reports whether a gardenlet starts and then removes an operation.
func consumable(op string) bool {
	return strings.HasPrefix(op, "rotate-") || strings.HasPrefix(op, corev1beta1.OperationRolloutWorkersPrefix)
}

// startOperations records the operations in the annotation in the status, removes them from the annotation, and records
// which pools an update in place is about to begin for. Nothing is written yet, see writeStart. A Shoot that is being
// deleted starts nothing.
func (r *Reconciler) startOperations(
	ctx context.Context, shoot *corev1beta1.Shoot, operation corev1beta1.LastOperationType, namespace string,
	now time.Time,
) error {
	switch {
	case operation == corev1beta1.LastOperationTypeMigrate:
		return nil // The other seed begins the requested operations.
	case shoot.DeletionTimestamp == nil:
		var rest []string
		for _, op := range operationsOf(shoot) {
			startOperation(shoot, op, now)
			if !consumable(op) {
				rest = append(rest, op)
			}
		}
		setOperations(shoot, rest)
		completeByItself(shoot, now)
		if err := r.startRestore(ctx, shoot, namespace, now); err != nil {
			return err
		}
	}
	return r.startInPlaceUpdates(ctx, shoot, namespace)
}

// setOperations writes the operation annotation.
func setOperations(shoot *corev1beta1.Shoot, operations []string) {
	if len(operations) == 0 {
		delete(shoot.Annotations, corev1beta1.AnnotationOperation)
		return
	}
	shoot.Annotations[corev1beta1.AnnotationOperation] = strings.Join(operations, corev1beta1.OperationSeparator)
}

// writeStart writes the start of an operation to the Shoot. The requested operations enter the status and leave the
// annotation in one write, so that there is no moment at which it is in both or in neither: a request to the status
// subresource may change annotations, too. The write is refused if the Shoot has changed since it was read, so that an
// operation that was added meanwhile is not lost; the next attempt sees it.
//
// A stop before the write leaves the request for the next attempt, and nothing has followed from it but times in the
// Cluster object, which that attempt overwrites. A stop after the write leaves no request. If the answer is lost, the
// next attempt reads which of the two it is.
func (r *Reconciler) writeStart(ctx context.Context, shoot, before *corev1beta1.Shoot) error {
	requested := before.Annotations[corev1beta1.AnnotationOperation]
	_, restores := before.Annotations[corev1beta1.AnnotationRestoreBackup]
	if shoot.Annotations[corev1beta1.AnnotationOperation] == requested && !restores {
		return kube.PatchStatus(ctx, r.Garden, shoot, before)
	}
	target := shoot.DeepCopy()
	err := r.Garden.Status().Patch(ctx, target, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("start operations %q: %w", requested, err)
	}
	shoot.ResourceVersion = target.ResourceVersion
	return nil
}

// startOperation starts one operation. A rotation begins only if no other one of the same credential is in progress,
// and is completed only when it is Prepared. Other requests are ignored: the API server has refused them unless the
// phase has changed since. To begin again would leave out the credential that is still in use.
func startOperation(shoot *corev1beta1.Shoot, op string, now time.Time) {
	switch op {
	case corev1beta1.OperationRotateCredentialsStart, corev1beta1.OperationRotateCredentialsStartWithoutWorkersRollout:
		without := op == corev1beta1.OperationRotateCredentialsStartWithoutWorkersRollout
		startCA(shoot, without, now)
		startServiceAccountKey(shoot, without, now)
		startEncryptionKey(shoot, now)
		startSSH(shoot, now)
		startObservability(shoot, now)
	case corev1beta1.OperationRotateCredentialsComplete:
		completeCA(shoot, now)
		completeServiceAccountKey(shoot, now)
		completeEncryptionKey(shoot, now)
	case corev1beta1.OperationRotateCAStart, corev1beta1.OperationRotateCAStartWithoutWorkersRollout:
		startCA(shoot, op == corev1beta1.OperationRotateCAStartWithoutWorkersRollout, now)
	case corev1beta1.OperationRotateCAComplete:
		completeCA(shoot, now)
	case corev1beta1.OperationRotateServiceAccountKeyStart,
		corev1beta1.OperationRotateServiceAccountKeyStartWithoutWorkersRollout:
		startServiceAccountKey(shoot, op == corev1beta1.OperationRotateServiceAccountKeyStartWithoutWorkersRollout, now)
	case corev1beta1.OperationRotateServiceAccountKeyComplete:
		completeServiceAccountKey(shoot, now)
	case corev1beta1.OperationRotateETCDEncryptionKey, corev1beta1.OperationRotateETCDEncryptionKeyStart:
		startEncryptionKey(shoot, now)
	case corev1beta1.OperationRotateETCDEncryptionKeyComplete:
		completeEncryptionKey(shoot, now)
	case corev1beta1.OperationRotateSSHKeypair:
		startSSH(shoot, now)
	case corev1beta1.OperationRotateObservabilityCredentials:
		startObservability(shoot, now)
	default:
		if pools, ok := strings.CutPrefix(op, corev1beta1.OperationRotateRolloutWorkersPrefix); ok {
			rotatePools(shoot, strings.Split(pools, ","))
		}
		if pools, ok := strings.CutPrefix(op, corev1beta1.OperationRolloutWorkersPrefix); ok {
			startRollout(shoot, strings.Split(pools, ","), now)
		}
	}
}

// rotation returns the block in the status, making it if needed.
func rotation(shoot *corev1beta1.Shoot) *corev1beta1.ShootCredentialsRotation {
	if shoot.Status.Credentials == nil {
		shoot.Status.Credentials = &corev1beta1.ShootCredentials{}
	}
	if shoot.Status.Credentials.Rotation == nil {
		shoot.Status.Credentials.Rotation = &corev1beta1.ShootCredentialsRotation{}
	}
	return shoot.Status.Credentials.Rotation
}

// startPhase is the first phase. With the roll-out left to the user, all pools stay with what they have, see
// pendingPools.
func startPhase(withoutRollout bool) corev1beta1.CredentialsRotationPhase {
	if withoutRollout {
		return corev1beta1.RotationPreparingWithoutWorkersRollout
	}
	return corev1beta1.RotationPreparing
}

// pendingPools are the pools that stay with the rotation before. A hibernated Shoot has no machines that could: those
// that it wakes up with are new.
func pendingPools(
	shoot *corev1beta1.Shoot, withoutRollout bool, previous *metav1.Time,
) []corev1beta1.PendingWorkersRollout {
	if !withoutRollout || shoot.HibernationEnabled() {
		return nil
	}
	var out []corev1beta1.PendingWorkersRollout
	for _, w := range shoot.Spec.Provider.Workers {
		out = append(out, corev1beta1.PendingWorkersRollout{Name: w.Name, LastInitiationTime: previous})
	}
	return out
}

// mayStart reports whether a rotation in this phase may begin.
func mayStart(phase corev1beta1.CredentialsRotationPhase) bool {
	return phase == "" || phase == corev1beta1.RotationCompleted
}

// underWay reports whether a rotation without phases is in progress.
func underWay(initiated, completed *metav1.Time) bool {
	return initiated != nil && (completed == nil || completed.Before(initiated))
}

// initiation is the time of a rotation that begins now. Times in the status have no fractions, so it is a second later
// than those of the last rotation, whatever the clock of the gardenlet that had begun it: it distinguishes the
// credentials of the two, and a rotation that begins later than it was completed is in progress.
func initiation(now time.Time, last ...*metav1.Time) *metav1.Time {
	for _, t := range last {
		if t != nil && now.Before(t.Add(time.Second)) {
			now = t.Add(time.Second)
		}
	}
	return &metav1.Time{Time: now}
}

// completion is the time at which a rotation is completed: not before its initiation, which may be later than now.
func completion(now time.Time, initiated *metav1.Time) *metav1.Time {
	if now.Before(initiated.Time) {
		return initiated.DeepCopy()
	}
	return &metav1.Time{Time: now}
}

func startCA(shoot *corev1beta1.Shoot, withoutRollout bool, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.CertificateAuthorities, corev1beta1.CARotation{})
	if !mayStart(old.Phase) {
		return
	}
	r.CertificateAuthorities = &corev1beta1.CARotation{
		Phase: startPhase(withoutRollout), LastInitiationTime: initiation(now, old.LastInitiationTime),
		LastCompletionTime:     old.LastCompletionTime,
		PendingWorkersRollouts: pendingPools(shoot, withoutRollout, old.LastInitiationTime),
	}
}

func startServiceAccountKey(shoot *corev1beta1.Shoot, withoutRollout bool, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.ServiceAccountKey, corev1beta1.ServiceAccountKeyRotation{})
	if !mayStart(old.Phase) {
		return
	}
	r.ServiceAccountKey = &corev1beta1.ServiceAccountKeyRotation{
		Phase: startPhase(withoutRollout), LastInitiationTime: initiation(now, old.LastInitiationTime),
		LastCompletionTime:     old.LastCompletionTime,
		PendingWorkersRollouts: pendingPools(shoot, withoutRollout, old.LastInitiationTime),
	}
}

// singleStepEncryptionKey is the Kubernetes version from which on the key is rotated without a second request.
var singleStepEncryptionKey = semver.MustParse("1.34.0")

func startEncryptionKey(shoot *corev1beta1.Shoot, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.ETCDEncryptionKey, corev1beta1.ETCDEncryptionKeyRotation{})
	if !mayStart(old.Phase) {
		return
	}
	r.ETCDEncryptionKey = &corev1beta1.ETCDEncryptionKeyRotation{
		Phase: corev1beta1.RotationPreparing, LastInitiationTime: initiation(now, old.LastInitiationTime),
		LastCompletionTime:        old.LastCompletionTime,
		AutoCompleteAfterPrepared: completesByItself(shoot),
	}
}

// completesByItself reports whether the rotation of the encryption key needs no second request; nil if it does.
func completesByItself(shoot *corev1beta1.Shoot) *bool {
	if v, err := semver.NewVersion(shoot.Spec.Kubernetes.Version); err == nil && !v.LessThan(singleStepEncryptionKey) {
		return ptr.To(true)
	}
	return nil
}

func startSSH(shoot *corev1beta1.Shoot, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.SSHKeypair, corev1beta1.ShootSSHKeypairRotation{})
	if underWay(old.LastInitiationTime, old.LastCompletionTime) {
		return
	}
	r.SSHKeypair = &corev1beta1.ShootSSHKeypairRotation{
		LastInitiationTime: initiation(now, old.LastInitiationTime, old.LastCompletionTime),
		LastCompletionTime: old.LastCompletionTime,
	}
}

func startObservability(shoot *corev1beta1.Shoot, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.Observability, corev1beta1.ObservabilityRotation{})
	if underWay(old.LastInitiationTime, old.LastCompletionTime) {
		return
	}
	r.Observability = &corev1beta1.ObservabilityRotation{
		LastInitiationTime: initiation(now, old.LastInitiationTime, old.LastCompletionTime),
		LastCompletionTime: old.LastCompletionTime,
	}
}

func completeCA(shoot *corev1beta1.Shoot, now time.Time) {
	if ca := rotation(shoot).CertificateAuthorities; ca != nil && ca.Phase == corev1beta1.RotationPrepared {
		ca.Phase, ca.LastCompletionTriggeredTime = corev1beta1.RotationCompleting, &metav1.Time{Time: now}
	}
}

func completeServiceAccountKey(shoot *corev1beta1.Shoot, now time.Time) {
	if key := rotation(shoot).ServiceAccountKey; key != nil && key.Phase == corev1beta1.RotationPrepared {
		key.Phase, key.LastCompletionTriggeredTime = corev1beta1.RotationCompleting, &metav1.Time{Time: now}
	}
}

func completeEncryptionKey(shoot *corev1beta1.Shoot, now time.Time) {
	if key := rotation(shoot).ETCDEncryptionKey; key != nil && key.Phase == corev1beta1.RotationPrepared {
		key.Phase, key.LastCompletionTriggeredTime = corev1beta1.RotationCompleting, &metav1.Time{Time: now}
	}
}

// completeByItself continues a rotation that needs no second request.
func completeByItself(shoot *corev1beta1.Shoot, now time.Time) {
	c := shoot.Status.Credentials
	if c != nil && c.Rotation != nil && c.Rotation.ETCDEncryptionKey != nil &&
		ptr.Deref(c.Rotation.ETCDEncryptionKey.AutoCompleteAfterPrepared, false) {
		completeEncryptionKey(shoot, now)
	}
}

// startRollout records the pools whose machines a user wants to be replaced; "*" means all of them. Pools that are
// updated in place are never rolled. The time distinguishes the request from the previous one.
func startRollout(shoot *corev1beta1.Shoot, pools []string, now time.Time) {
	var pending []corev1beta1.PendingWorkersRollout
	if r := shoot.Status.ManualWorkerPoolRollout; r != nil {
		pending = r.PendingWorkersRollouts
	}
	for i := range shoot.Spec.Provider.Workers {
		w := &shoot.Spec.Provider.Workers[i]
		if w.UpdatesInPlace() || !slices.Contains(pools, w.Name) && !slices.Contains(pools, "*") {
			continue
		}
		at := slices.IndexFunc(pending, func(p corev1beta1.PendingWorkersRollout) bool { return p.Name == w.Name })
		if at < 0 {
			pending = append(pending, corev1beta1.PendingWorkersRollout{Name: w.Name, LastInitiationTime: initiation(now, nil)})
			continue
		}
		pending[at].LastInitiationTime = initiation(now, pending[at].LastInitiationTime)
	}
	if len(pending) > 0 {
		shoot.Status.ManualWorkerPoolRollout = &corev1beta1.ManualWorkerPoolRollout{PendingWorkersRollouts: pending}
	}
}

// finishRollouts forgets the requested roll-outs. The flow has waited for them, unless the Shoot has no machines any
// more.
func finishRollouts(shoot *corev1beta1.Shoot, operation corev1beta1.LastOperationType) {
	if operation != corev1beta1.LastOperationTypeMigrate { // The other seed continues them.
		shoot.Status.ManualWorkerPoolRollout = nil
	}
}

// rotatePools lets pools take part in the rotations that are waiting for them.
func rotatePools(shoot *corev1beta1.Shoot, pools []string) {
	named := func(p corev1beta1.PendingWorkersRollout) bool { return slices.Contains(pools, p.Name) }
	r := rotation(shoot)
	if ca := r.CertificateAuthorities; ca != nil {
		ca.PendingWorkersRollouts = slices.DeleteFunc(ca.PendingWorkersRollouts, named)
	}
	if key := r.ServiceAccountKey; key != nil {
		key.PendingWorkersRollouts = slices.DeleteFunc(key.PendingWorkersRollouts, named)
	}
}
