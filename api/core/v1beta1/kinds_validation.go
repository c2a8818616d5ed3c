package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateBackupBucket checks a new BackupBucket.
func ValidateBackupBucket(o *BackupBucket) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, false, labelName)
}

// ValidateBackupBucketUpdate checks a changed BackupBucket.
func ValidateBackupBucketUpdate(o, old *BackupBucket) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateBackupBucket(o)...)
}

// ValidateBackupEntry checks a new BackupEntry.
func ValidateBackupEntry(o *BackupEntry) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, true, pathSegmentName)
}

// ValidateBackupEntryUpdate checks a changed BackupEntry.
func ValidateBackupEntryUpdate(o, old *BackupEntry) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateBackupEntry(o)...)
}

// ValidateControllerDeployment checks a new ControllerDeployment.
func ValidateControllerDeployment(o *ControllerDeployment) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, false, labelName)
}

// ValidateControllerDeploymentUpdate checks a changed ControllerDeployment.
func ValidateControllerDeploymentUpdate(o, old *ControllerDeployment) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateControllerDeployment(o)...)
}

// ValidateControllerInstallation checks a new ControllerInstallation.
func ValidateControllerInstallation(o *ControllerInstallation) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, false, labelName)
}

// ValidateControllerInstallationUpdate checks a changed ControllerInstallation.
func ValidateControllerInstallationUpdate(o, old *ControllerInstallation) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateControllerInstallation(o)...)
}

// ValidateControllerRegistration checks a new ControllerRegistration.
func ValidateControllerRegistration(o *ControllerRegistration) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, false, labelName)
}

// ValidateControllerRegistrationUpdate checks a changed ControllerRegistration.
func ValidateControllerRegistrationUpdate(o, old *ControllerRegistration) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateControllerRegistration(o)...)
}

// ValidateExposureClass checks a new ExposureClass.
func ValidateExposureClass(o *ExposureClass) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, false, labelName)
}

// ValidateExposureClassUpdate checks a changed ExposureClass.
func ValidateExposureClassUpdate(o, old *ExposureClass) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateExposureClass(o)...)
}

// ValidateInternalSecret checks a new InternalSecret.
func ValidateInternalSecret(o *InternalSecret) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, true, subdomainName)
}

// ValidateInternalSecretUpdate checks a changed InternalSecret.
func ValidateInternalSecretUpdate(o, old *InternalSecret) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateInternalSecret(o)...)
}

// ValidateProject checks a new Project.
func ValidateProject(o *Project) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, false, subdomainName)
}

// ValidateProjectUpdate checks a changed Project.
func ValidateProjectUpdate(o, old *Project) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateProject(o)...)
}

// ValidateQuota checks a new Quota.
func ValidateQuota(o *Quota) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, true, subdomainName)
}

// ValidateQuotaUpdate checks a changed Quota.
func ValidateQuotaUpdate(o, old *Quota) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateQuota(o)...)
}

// ValidateSecretBinding checks a new SecretBinding.
func ValidateSecretBinding(o *SecretBinding) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, true, subdomainName)
}

// ValidateSecretBindingUpdate checks a changed SecretBinding.
func ValidateSecretBindingUpdate(o, old *SecretBinding) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateSecretBinding(o)...)
}

// ValidateSeed checks a new Seed.
func ValidateSeed(o *Seed) field.ErrorList { return validateMetadata(&o.ObjectMeta, false, labelName) }

// ValidateSeedUpdate checks a changed Seed.
func ValidateSeedUpdate(o, old *Seed) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateSeed(o)...)
}

// ValidateShootState checks a new ShootState.
func ValidateShootState(o *ShootState) field.ErrorList {
	return validateMetadata(&o.ObjectMeta, true, labelName)
}

// ValidateShootStateUpdate checks a changed ShootState.
func ValidateShootStateUpdate(o, old *ShootState) field.ErrorList {
	return append(validateMetadataUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidateShootState(o)...)
}

// ValidateProjectStatusUpdate checks a changed status.
func ValidateProjectStatusUpdate(project, old *Project) field.ErrorList { return nil }

// ValidateSeedStatusUpdate checks a changed status.
func ValidateSeedStatusUpdate(seed, old *Seed) field.ErrorList { return nil }
