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

// consumable tells whether an operation is one that a gardenlet starts and then removes.
func consumable(op string) bool {
	return strings.HasPrefix(op, "rotate-") || strings.HasPrefix(op, corev1beta1.OperationRolloutWorkersPrefix)
}

// consumeOperations removes the operations from the annotation that have been started.
func (r *Reconciler) consumeOperations(ctx context.Context, shoot *corev1beta1.Shoot) error {
	all := operationsOf(shoot)
	rest := slices.DeleteFunc(slices.Clone(all), consumable)
	if len(rest) == len(all) {
		return nil
	}
	target := shoot.DeepCopy()
	if len(rest) == 0 {
		delete(target.Annotations, corev1beta1.AnnotationOperation)
	} else {
		target.Annotations[corev1beta1.AnnotationOperation] = strings.Join(rest, corev1beta1.OperationSeparator)
	}
	annotations := target.Annotations
	if err := r.Garden.Patch(ctx, target, client.MergeFrom(shoot)); err != nil {
		return fmt.Errorf("remove started operations from the annotation: %w", err)
	}
	shoot.Annotations, shoot.ResourceVersion = annotations, target.ResourceVersion
	return nil
}

// startOperations records in the status what the operation annotation asks for, and which pools an update in place is
// about to begin for.
func (r *Reconciler) startOperations(ctx context.Context, shoot *corev1beta1.Shoot, namespace string, now time.Time) error {
	for _, op := range operationsOf(shoot) {
		startOperation(shoot, op, now)
	}
	completeByItself(shoot, now)
	return r.startInPlaceUpdates(ctx, shoot, namespace)
}

// startOperation starts one operation. Those that cannot start in the present phase are ignored; the API server has
// refused them unless the phase has changed since.
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
	case corev1beta1.OperationRotateServiceAccountKeyStart, corev1beta1.OperationRotateServiceAccountKeyStartWithoutWorkersRollout:
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
			rollPools(shoot, strings.Split(pools, ","))
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

// startPhase and pending pools: with the roll-out left to the user, all pools stay with what they have.
func startPhase(withoutRollout bool) corev1beta1.CredentialsRotationPhase {
	if withoutRollout {
		return corev1beta1.RotationPreparingWithoutWorkersRollout
	}
	return corev1beta1.RotationPreparing
}

func pendingPools(shoot *corev1beta1.Shoot, withoutRollout bool, previous *metav1.Time) []corev1beta1.PendingWorkersRollout {
	if !withoutRollout {
		return nil
	}
	var out []corev1beta1.PendingWorkersRollout
	for _, w := range shoot.Spec.Provider.Workers {
		out = append(out, corev1beta1.PendingWorkersRollout{Name: w.Name, LastInitiationTime: previous})
	}
	return out
}

func startCA(shoot *corev1beta1.Shoot, withoutRollout bool, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.CertificateAuthorities, corev1beta1.CARotation{})
	r.CertificateAuthorities = &corev1beta1.CARotation{
		Phase: startPhase(withoutRollout), LastInitiationTime: &metav1.Time{Time: now}, LastCompletionTime: old.LastCompletionTime,
		PendingWorkersRollouts: pendingPools(shoot, withoutRollout, old.LastInitiationTime),
	}
}

func startServiceAccountKey(shoot *corev1beta1.Shoot, withoutRollout bool, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.ServiceAccountKey, corev1beta1.ServiceAccountKeyRotation{})
	r.ServiceAccountKey = &corev1beta1.ServiceAccountKeyRotation{
		Phase: startPhase(withoutRollout), LastInitiationTime: &metav1.Time{Time: now}, LastCompletionTime: old.LastCompletionTime,
		PendingWorkersRollouts: pendingPools(shoot, withoutRollout, old.LastInitiationTime),
	}
}

// singleStepEncryptionKey is the Kubernetes version from which on the key is rotated without a second request.
var singleStepEncryptionKey = semver.MustParse("1.34.0")

func startEncryptionKey(shoot *corev1beta1.Shoot, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.ETCDEncryptionKey, corev1beta1.ETCDEncryptionKeyRotation{})
	r.ETCDEncryptionKey = &corev1beta1.ETCDEncryptionKeyRotation{
		Phase: corev1beta1.RotationPreparing, LastInitiationTime: &metav1.Time{Time: now}, LastCompletionTime: old.LastCompletionTime,
	}
	if v, err := semver.NewVersion(shoot.Spec.Kubernetes.Version); err == nil && !v.LessThan(singleStepEncryptionKey) {
		r.ETCDEncryptionKey.AutoCompleteAfterPrepared = ptr.To(true)
	}
}

func startSSH(shoot *corev1beta1.Shoot, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.SSHKeypair, corev1beta1.ShootSSHKeypairRotation{})
	r.SSHKeypair = &corev1beta1.ShootSSHKeypairRotation{LastInitiationTime: &metav1.Time{Time: now}, LastCompletionTime: old.LastCompletionTime}
}

func startObservability(shoot *corev1beta1.Shoot, now time.Time) {
	r := rotation(shoot)
	old := ptr.Deref(r.Observability, corev1beta1.ObservabilityRotation{})
	r.Observability = &corev1beta1.ObservabilityRotation{LastInitiationTime: &metav1.Time{Time: now}, LastCompletionTime: old.LastCompletionTime}
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

// completeByItself goes on with a rotation that needs no second request.
func completeByItself(shoot *corev1beta1.Shoot, now time.Time) {
	c := shoot.Status.Credentials
	if c != nil && c.Rotation != nil && c.Rotation.ETCDEncryptionKey != nil && ptr.Deref(c.Rotation.ETCDEncryptionKey.AutoCompleteAfterPrepared, false) {
		completeEncryptionKey(shoot, now)
	}
}

// rollPools lets pools follow the rotations that are waiting for them.
func rollPools(shoot *corev1beta1.Shoot, pools []string) {
	named := func(p corev1beta1.PendingWorkersRollout) bool { return slices.Contains(pools, p.Name) }
	r := rotation(shoot)
	if ca := r.CertificateAuthorities; ca != nil {
		ca.PendingWorkersRollouts = slices.DeleteFunc(ca.PendingWorkersRollouts, named)
	}
	if key := r.ServiceAccountKey; key != nil {
		key.PendingWorkersRollouts = slices.DeleteFunc(key.PendingWorkersRollouts, named)
	}
}
