package shoot

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/secretsmanager"
)

// adoptRotations repairs rotations of which the status knows less than the Secrets in the seed: the garden has been
// restored from a backup that is older than them. It returns the credentials whose rotation it has adopted.
//
// While there are Secrets from before a rotation, how far it had come is not known, so it is prepared once more, which
// changes nothing that is prepared already; pools that were left to the user follow. Without such Secrets it had been
// completed.
func adoptRotations(shoot *corev1beta1.Shoot, seen steps.ObservedRotations) []string {
	var adopted []string
	r := ptr.Deref(shoot.Status.Credentials, corev1beta1.ShootCredentials{}).Rotation
	if r == nil {
		r = &corev1beta1.ShootCredentialsRotation{}
	}
	adopt := func(name string, seen secretsmanager.Rotation, known *metav1.Time) bool {
		later := !seen.Initiated.IsZero() && (known == nil || seen.Initiated.After(known.Time))
		if later {
			adopted = append(adopted, name)
		}
		return later
	}
	type phase = corev1beta1.CredentialsRotationPhase
	outcome := func(seen secretsmanager.Rotation, completed *metav1.Time) (phase, *metav1.Time) {
		if seen.Unfinished {
			return corev1beta1.RotationPreparing, completed
		}
		return corev1beta1.RotationCompleted, &metav1.Time{Time: seen.Initiated} // Or later, but that is not known.
	}
	ca := ptr.Deref(r.CertificateAuthorities, corev1beta1.CARotation{})
	if o := seen.CertificateAuthorities; adopt("certificateAuthorities", o, ca.LastInitiationTime) {
		next := &corev1beta1.CARotation{LastInitiationTime: &metav1.Time{Time: o.Initiated}}
		next.Phase, next.LastCompletionTime = outcome(o, ca.LastCompletionTime)
		rotation(shoot).CertificateAuthorities = next
	}
	key := ptr.Deref(r.ServiceAccountKey, corev1beta1.ServiceAccountKeyRotation{})
	if o := seen.ServiceAccountKey; adopt("serviceAccountKey", o, key.LastInitiationTime) {
		next := &corev1beta1.ServiceAccountKeyRotation{LastInitiationTime: &metav1.Time{Time: o.Initiated}}
		next.Phase, next.LastCompletionTime = outcome(o, key.LastCompletionTime)
		rotation(shoot).ServiceAccountKey = next
	}
	etcd := ptr.Deref(r.ETCDEncryptionKey, corev1beta1.ETCDEncryptionKeyRotation{})
	if o := seen.EncryptionKey; adopt("etcdEncryptionKey", o, etcd.LastInitiationTime) {
		next := &corev1beta1.ETCDEncryptionKeyRotation{LastInitiationTime: &metav1.Time{Time: o.Initiated}}
		next.Phase, next.LastCompletionTime = outcome(o, etcd.LastCompletionTime)
		next.AutoCompleteAfterPrepared = completesByItself(shoot)
		rotation(shoot).ETCDEncryptionKey = next
	}
	ssh := ptr.Deref(r.SSHKeypair, corev1beta1.ShootSSHKeypairRotation{})
	if o := seen.SSHKeypair; adopt("sshKeypair", o, ssh.LastInitiationTime) {
		rotation(shoot).SSHKeypair = &corev1beta1.ShootSSHKeypairRotation{
			LastInitiationTime: &metav1.Time{Time: o.Initiated}, LastCompletionTime: ssh.LastCompletionTime,
		}
	}
	return adopted
}

// finishRotation advances the rotations that a successful reconciliation has brought a phase further.
func finishRotation(s *corev1beta1.ShootStatus, now time.Time) {
	if s.Credentials == nil || s.Credentials.Rotation == nil {
		return
	}
	r, t := s.Credentials.Rotation, &metav1.Time{Time: now}
	manual := s.InPlaceUpdates != nil && s.InPlaceUpdates.PendingWorkerUpdates != nil &&
		len(s.InPlaceUpdates.PendingWorkerUpdates.ManualInPlaceUpdate) > 0
	if ca := r.CertificateAuthorities; ca != nil {
		advance(rotationFields{
			&ca.Phase, &ca.LastInitiationFinishedTime, &ca.LastCompletionTriggeredTime, &ca.LastCompletionTime,
		}, len(ca.PendingWorkersRollouts), manual, t)
	}
	if key := r.ServiceAccountKey; key != nil {
		advance(rotationFields{
			&key.Phase, &key.LastInitiationFinishedTime, &key.LastCompletionTriggeredTime, &key.LastCompletionTime,
		}, len(key.PendingWorkersRollouts), manual, t)
	}
	if enc := r.ETCDEncryptionKey; enc != nil {
		advance(rotationFields{
			&enc.Phase, &enc.LastInitiationFinishedTime, &enc.LastCompletionTriggeredTime, &enc.LastCompletionTime,
		}, 0, false, t)
	}
	if ssh := r.SSHKeypair; ssh != nil && underWay(ssh.LastInitiationTime, ssh.LastCompletionTime) {
		ssh.LastCompletionTime = completion(now, ssh.LastInitiationTime)
	}
	if o := r.Observability; o != nil && underWay(o.LastInitiationTime, o.LastCompletionTime) {
		o.LastCompletionTime = completion(now, o.LastInitiationTime)
	}
}

// rotationFields are the fields that the two-phase rotations have in common.
type rotationFields struct {
	phase                                                  *corev1beta1.CredentialsRotationPhase
	initiationFinished, completionTriggered, lastCompleted **metav1.Time
}

// advance moves a two-phase rotation on. One that leaves the roll-out of pools to the user waits for it only if there
// are pools.
func advance(f rotationFields, pendingPools int, manualPending bool, now *metav1.Time) {
	switch *f.phase {
	case corev1beta1.RotationPreparing:
		if manualPending {
			return
		}
		*f.phase, *f.initiationFinished = corev1beta1.RotationPrepared, now
	case corev1beta1.RotationPreparingWithoutWorkersRollout, corev1beta1.RotationWaitingForWorkersRollout:
		if pendingPools > 0 || manualPending {
			*f.phase = corev1beta1.RotationWaitingForWorkersRollout
			return
		}
		*f.phase, *f.initiationFinished = corev1beta1.RotationPrepared, now
	case corev1beta1.RotationCompleting:
		*f.phase, *f.lastCompleted = corev1beta1.RotationCompleted, now
		*f.initiationFinished, *f.completionTriggered = nil, nil
	}
}
