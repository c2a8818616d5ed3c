package v1beta1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateBackupEntry checks a BackupEntry.
func ValidateBackupEntry(entry *BackupEntry) field.ErrorList {
	errs := validateMeta(&entry.ObjectMeta, true, nameIsAnything)
	if entry.Spec.BucketName == "" {
		errs = append(errs, field.Invalid(specPath.Child("bucketName"), "", "must be given"))
	}
	errs = append(errs, validateOwner(entry.Spec.SeedName, entry.Spec.ShootRef, specPath)...)
	if ref := entry.Spec.ShootRef; ref != nil && ref.Namespace != entry.Namespace {
		errs = append(errs, field.Forbidden(specPath.Child("shootRef", "namespace"),
			"must be the namespace of the BackupEntry"))
	}
	return errs
}

// ValidateBackupEntryUpdate checks a changed BackupEntry. The Seed changes in a migration.
func ValidateBackupEntryUpdate(entry, old *BackupEntry) field.ErrorList {
	return append(validateMetaUpdate(&entry.ObjectMeta, &old.ObjectMeta), ValidateBackupEntry(entry)...)
}
