package maintenance

import (
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const rotationInProgressReason = "rotation of the ETCD encryption key is already in progress"

// Rotation is a credential that maintenance rotates periodically.
type Rotation struct {
	Operation string
	Period    time.Duration // More than 0.
	Last      time.Time     // Completion of the last rotation, else creation of the Shoot.
	// Busy is true while an earlier rotation of the same credential is in progress.
	Busy bool
	// Awake is true for rotations that cannot run while the Shoot is hibernated.
	Awake bool
}

// Due reports whether the rotation is due at t, that is, whether t is after DueAfter.
func (r *Rotation) Due(t time.Time) bool { return r.DueAfter().Before(t) }

// DueAfter returns the last instant at which the rotation is not due yet.
func (r *Rotation) DueAfter() time.Time { return r.Last.Add(r.Period) }

func (r *Rotation) subject() string {
	switch r.Operation {
	case corev1beta1.OperationRotateSSHKeypair:
		return "SSH key pair"
	case corev1beta1.OperationRotateObservabilityCredentials:
		return "observability credentials"
	}
	return "ETCD encryption key"
}

// RotationsOf lists the credentials for which the Shoot has automatic rotation enabled.
func RotationsOf(shoot *corev1beta1.Shoot) []Rotation {
	m := shoot.Spec.Maintenance
	if m == nil || m.AutoRotation == nil || m.AutoRotation.Credentials == nil {
		return nil
	}
	wanted := m.AutoRotation.Credentials
	status := &corev1beta1.ShootCredentialsRotation{}
	if c := shoot.Status.Credentials; c != nil && c.Rotation != nil {
		status = c.Rotation
	}
	var rotations []Rotation
	add := func(config *corev1beta1.MaintenanceRotationConfig, r Rotation) {
		r.Period = corev1beta1.DefaultRotationPeriod
		if config.RotationPeriod != nil {
			r.Period = config.RotationPeriod.Duration
		}
		if r.Last.IsZero() {
			r.Last = shoot.CreationTimestamp.Time
		}
		if r.Period > 0 {
			rotations = append(rotations, r)
		}
	}
	if wanted.SSHKeypair != nil && shoot.SSHAccess() {
		r := Rotation{Operation: corev1beta1.OperationRotateSSHKeypair}
		if s := status.SSHKeypair; s != nil && s.LastCompletionTime != nil {
			r.Last = s.LastCompletionTime.Time
		}
		add(wanted.SSHKeypair, r)
	}
	if wanted.Observability != nil {
		r := Rotation{Operation: corev1beta1.OperationRotateObservabilityCredentials}
		if s := status.Observability; s != nil && s.LastCompletionTime != nil {
			r.Last = s.LastCompletionTime.Time
		}
		add(wanted.Observability, r)
	}
	if wanted.ETCDEncryptionKey != nil {
		r := Rotation{Operation: corev1beta1.OperationRotateETCDEncryptionKey, Awake: true}
		if s := status.ETCDEncryptionKey; s != nil {
			if s.LastCompletionTime != nil {
				r.Last = s.LastCompletionTime.Time
			}
			r.Busy = s.Phase != "" && s.Phase != corev1beta1.RotationCompleted
		}
		add(wanted.ETCDEncryptionKey, r)
	}
	return rotations
}

// Credential is a rotation that maintenance starts or fails to start.
type Credential struct {
	Operation string
	Reason    string
	Err       string // Empty if it has started.
	text      string
}

// DueRotations decides which rotations to start. operations are the operations that the maintenance starts anyway.
func DueRotations(rotations []Rotation, operations []string, hibernated bool, now time.Time) []Credential {
	var due []Credential
	for i := range rotations {
		r := &rotations[i]
		if !r.Due(now) || r.Awake && hibernated {
			continue
		}
		c := Credential{
			Operation: r.Operation,
			Reason:    "Automatic rotation of " + r.subject() + " configured",
			text:      "Automatic rotation of " + r.subject() + " started",
		}
		if r.Busy {
			c.Err = "Could not start " + r.subject() + " rotation: " + rotationInProgressReason
		}
		if contains(operations, r.Operation) || r.Operation == corev1beta1.OperationRotateETCDEncryptionKey &&
			contains(operations, corev1beta1.OperationRotateETCDEncryptionKeyStart) {
			continue
		}
		due = append(due, c)
	}
	return due
}
