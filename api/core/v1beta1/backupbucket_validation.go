package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateBackupBucket checks a BackupBucket.
func ValidateBackupBucket(bucket *BackupBucket) field.ErrorList {
	errs := validateMeta(&bucket.ObjectMeta, false, nameIsLabel)
	path := specPath.Child("provider")
	if bucket.Spec.Provider.Type == "" {
		errs = append(errs, field.Invalid(path.Child("type"), "", "must be given"))
	}
	if bucket.Spec.Provider.Region == "" {
		errs = append(errs, field.Invalid(path.Child("region"), "", "must be given"))
	}
	errs = append(errs, validateOwner(bucket.Spec.SeedName, bucket.Spec.ShootRef, specPath)...)
	return append(errs, validateCredentialsRef(bucket.Spec.CredentialsRef, specPath.Child("credentialsRef"), true)...)
}

// ValidateBackupBucketUpdate checks a changed BackupBucket.
func ValidateBackupBucketUpdate(bucket, old *BackupBucket) field.ErrorList {
	errs := validateMetaUpdate(&bucket.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateImmutable(bucket.Spec.Provider, old.Spec.Provider, specPath.Child("provider"))...)
	errs = append(errs, validateImmutableOnceSet(bucket.Spec.SeedName, old.Spec.SeedName, specPath.Child("seedName"))...)
	return append(errs, ValidateBackupBucket(bucket)...)
}
