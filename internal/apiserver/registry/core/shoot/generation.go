package shoot

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// specBumps is specChangeRolls, except on subresources.
func specBumps(s, old *corev1beta1.Shoot) bool { return specChangeRolls(s, old) }

// specChangeRolls reports whether a change of the spec is rolled out now. With a confined rollout only hibernation is.
func specChangeRolls(s, old *corev1beta1.Shoot) bool {
	if s.HibernationEnabled() != old.HibernationEnabled() {
		return true
	}
	maintenance := s.Spec.Maintenance
	confined := maintenance != nil && maintenance.ConfineSpecUpdateRollout != nil && *maintenance.ConfineSpecUpdateRollout
	return !confined && !equality.Semantic.DeepEqual(s.Spec, old.Spec)
}

// takeOperations reports whether the requested operations increment the generation. It removes those that need nothing
// else.
func takeOperations(s *corev1beta1.Shoot) bool {
	last := s.Status.LastOperation
	operations := corev1beta1.Operations(s.Annotations, corev1beta1.AnnotationOperation)
	if last == nil || len(operations) == 0 {
		return false
	}
	if len(operations) > 1 && slices.ContainsFunc(operations, standsAlone) {
		return false // Validation rejects the list as it is.
	}
	if last.State == corev1beta1.LastOperationStateFailed {
		if !slices.Contains(operations, corev1beta1.OperationRetry) {
			return false
		}
		delete(s.Annotations, corev1beta1.AnnotationOperation)
		return true
	}

	bump := false
	rest := slices.DeleteFunc(withoutRedundant(operations), func(operation string) bool {
		switch {
		case operation == corev1beta1.OperationReconcile:
			bump = true
			return true
		case operation == corev1beta1.OperationRotateSSHKeypair && !s.SSHAccess():
			return true
		case strings.HasPrefix(operation, "rotate-"), strings.HasPrefix(operation, corev1beta1.OperationRolloutWorkersPrefix):
			bump = true // The gardenlet removes it when it starts the operation.
		}
		return false
	})
	setOperations(s, corev1beta1.AnnotationOperation, rest)
	return bump
}

// standsAlone reports whether an operation cannot be requested together with others.
func standsAlone(operation string) bool {
	switch operation {
	case corev1beta1.OperationMaintain, corev1beta1.OperationRetry, corev1beta1.OperationForceInPlaceUpdate:
		return true
	}
	return false
}

// covered lists the operations that each operation includes.
var covered = map[string][]string{
	corev1beta1.OperationRotateCredentialsStart: {
		corev1beta1.OperationRotateCAStart, corev1beta1.OperationRotateServiceAccountKeyStart,
		corev1beta1.OperationRotateETCDEncryptionKey, corev1beta1.OperationRotateETCDEncryptionKeyStart,
		corev1beta1.OperationRotateObservabilityCredentials, corev1beta1.OperationRotateSSHKeypair,
	},
	corev1beta1.OperationRotateCredentialsStartWithoutWorkersRollout: {
		corev1beta1.OperationRotateCAStartWithoutWorkersRollout,
		corev1beta1.OperationRotateServiceAccountKeyStartWithoutWorkersRollout,
		corev1beta1.OperationRotateETCDEncryptionKey, corev1beta1.OperationRotateETCDEncryptionKeyStart,
		corev1beta1.OperationRotateObservabilityCredentials, corev1beta1.OperationRotateSSHKeypair,
	},
	corev1beta1.OperationRotateCredentialsComplete: {
		corev1beta1.OperationRotateCAComplete, corev1beta1.OperationRotateServiceAccountKeyComplete,
		corev1beta1.OperationRotateETCDEncryptionKeyComplete,
	},
}

func withoutRedundant(operations []string) []string {
	var redundant []string
	for _, operation := range operations {
		redundant = append(redundant, covered[operation]...)
	}
	return slices.DeleteFunc(operations, func(operation string) bool { return slices.Contains(redundant, operation) })
}

func deduplicateOperations(s *corev1beta1.Shoot) {
	for _, key := range []string{corev1beta1.AnnotationOperation, corev1beta1.AnnotationMaintenanceOperation} {
		// A list without duplicates is not rewritten.
		if written := s.Annotations[key]; strings.Contains(written, corev1beta1.OperationSeparator) {
			setOperations(s, key, corev1beta1.Operations(s.Annotations, key))
		}
	}
}

func setOperations(s *corev1beta1.Shoot, key string, operations []string) {
	if len(operations) == 0 {
		delete(s.Annotations, key)
		return
	}
	s.Annotations[key] = strings.Join(operations, corev1beta1.OperationSeparator)
}

// migrationEnded reports whether the source Seed has just ended the migration, so that the destination must act.
func migrationEnded(s, old *corev1beta1.Shoot) bool {
	ended := func(op *corev1beta1.LastOperation) bool {
		return op != nil && op.Type == corev1beta1.LastOperationTypeMigrate &&
			(op.State == corev1beta1.LastOperationStateSucceeded || op.State == corev1beta1.LastOperationStateAborted)
	}
	return ended(s.Status.LastOperation) && !ended(old.Status.LastOperation)
}

// rotationCompletes reports whether a rotation of the etcd encryption key is completed automatically.
func rotationCompletes(s, old *corev1beta1.Shoot) bool {
	rotation := etcdKeyRotation(s)
	if rotation == nil || rotation.Phase != corev1beta1.RotationPrepared ||
		rotation.AutoCompleteAfterPrepared == nil || !*rotation.AutoCompleteAfterPrepared {
		return false
	}
	before := etcdKeyRotation(old)
	return before == nil || before.Phase != corev1beta1.RotationPrepared
}

func etcdKeyRotation(s *corev1beta1.Shoot) *corev1beta1.ETCDEncryptionKeyRotation {
	if credentials := s.Status.Credentials; credentials != nil && credentials.Rotation != nil {
		return credentials.Rotation.ETCDEncryptionKey
	}
	return nil
}
