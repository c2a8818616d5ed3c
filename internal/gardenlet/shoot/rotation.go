package shoot

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// finishRotation advances the rotations that a successful reconciliation has brought a phase further.
func finishRotation(s *corev1beta1.ShootStatus, now time.Time) {
	if s.Credentials == nil || s.Credentials.Rotation == nil {
		return
	}
	r, t := s.Credentials.Rotation, &metav1.Time{Time: now}
	manual := s.InPlaceUpdates != nil && s.InPlaceUpdates.PendingWorkerUpdates != nil && len(s.InPlaceUpdates.PendingWorkerUpdates.ManualInPlaceUpdate) > 0
	if ca := r.CertificateAuthorities; ca != nil {
		advance(rotationFields{&ca.Phase, &ca.LastInitiationFinishedTime, &ca.LastCompletionTriggeredTime, &ca.LastCompletionTime}, len(ca.PendingWorkersRollouts), manual, t)
	}
	if key := r.ServiceAccountKey; key != nil {
		advance(rotationFields{&key.Phase, &key.LastInitiationFinishedTime, &key.LastCompletionTriggeredTime, &key.LastCompletionTime}, len(key.PendingWorkersRollouts), manual, t)
	}
	if enc := r.ETCDEncryptionKey; enc != nil {
		advance(rotationFields{&enc.Phase, &enc.LastInitiationFinishedTime, &enc.LastCompletionTriggeredTime, &enc.LastCompletionTime}, 0, false, t)
	}
	if ssh := r.SSHKeypair; ssh != nil && underWay(ssh.LastInitiationTime, ssh.LastCompletionTime) {
		ssh.LastCompletionTime = t
	}
	if o := r.Observability; o != nil && underWay(o.LastInitiationTime, o.LastCompletionTime) {
		o.LastCompletionTime = t
	}
}

// rotationFields are what the two-phase rotations have in common.
type rotationFields struct {
	phase                                                  *corev1beta1.CredentialsRotationPhase
	initiationFinished, completionTriggered, lastCompleted **metav1.Time
}

func advance(f rotationFields, pendingPools int, manualPending bool, now *metav1.Time) {
	switch *f.phase {
	case corev1beta1.RotationPreparing:
		if manualPending {
			return
		}
		*f.phase, *f.initiationFinished = corev1beta1.RotationPrepared, now
	case corev1beta1.RotationPreparingWithoutWorkersRollout:
		*f.phase = corev1beta1.RotationWaitingForWorkersRollout
	case corev1beta1.RotationWaitingForWorkersRollout:
		if pendingPools > 0 || manualPending {
			return
		}
		*f.phase, *f.initiationFinished = corev1beta1.RotationPrepared, now
	case corev1beta1.RotationCompleting:
		*f.phase, *f.lastCompleted = corev1beta1.RotationCompleted, now
		*f.initiationFinished, *f.completionTriggered = nil, nil
	}
}
