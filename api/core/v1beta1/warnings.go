package v1beta1

import "k8s.io/apimachinery/pkg/api/equality"

// WarningsSecretBinding names what is accepted but deprecated.
func WarningsSecretBinding(*SecretBinding, *SecretBinding) []string {
	return []string{"SecretBinding is deprecated, use security.gardener.cloud/v1alpha1 CredentialsBinding"}
}

// newlyGiven reports whether an older spelling is given that was not there before. The API server keeps both spellings
// equal, so one that was there need not be the client's.
func newlyGiven[T comparable](now, before *T) bool {
	return now != nil && (before == nil || *now != *before)
}

// kindWorkloadIdentity is a kind of credentials that most parts cannot use.
const kindWorkloadIdentity = "WorkloadIdentity"

// WarningsSeed names what is accepted but deprecated or without effect. old is nil for a new Seed.
func WarningsSeed(seed, old *Seed) []string {
	var backup Backup
	var provider SeedDNSProvider
	if old != nil && old.Spec.Backup != nil {
		backup = *old.Spec.Backup
	}
	if old != nil && old.Spec.DNS.Provider != nil {
		provider = *old.Spec.DNS.Provider
	}
	var warnings []string
	if seed.Spec.Backup != nil && newlyGiven(seed.Spec.Backup.SecretRef, backup.SecretRef) {
		warnings = append(warnings, "spec.backup.secretRef is deprecated, use credentialsRef")
	}
	if seed.Spec.DNS.Provider != nil && newlyGiven(seed.Spec.DNS.Provider.SecretRef, provider.SecretRef) {
		warnings = append(warnings, "spec.dns.provider.secretRef is deprecated, use credentialsRef")
	}
	if old == nil || !equality.Semantic.DeepEqual(seed.Spec, old.Spec) {
		warnings = append(warnings, SeedWithoutEffect(&seed.Spec, specPath)...)
	}
	return warnings
}

// WarningsBackupBucket names what is accepted but deprecated or without effect. old is nil for a new BackupBucket.
func WarningsBackupBucket(bucket, old *BackupBucket) []string {
	var before BackupBucketSpec
	if old != nil {
		before = old.Spec
	}
	var warnings []string
	if newlyGiven(bucket.Spec.SecretRef, before.SecretRef) {
		warnings = append(warnings, "spec.secretRef is deprecated, use credentialsRef")
	}
	if old != nil && equality.Semantic.DeepEqual(bucket.Spec, before) {
		return warnings
	}
	if ref := bucket.Spec.CredentialsRef; ref != nil && ref.Kind == kindWorkloadIdentity {
		warnings = append(warnings, "spec.credentialsRef has no effect: backups need a Secret")
	}
	if bucket.Spec.ShootRef != nil {
		warnings = append(warnings, "spec.shootRef has no effect: self-hosted Shoots are not supported")
	}
	return warnings
}

// WarningsControllerInstallation names what is accepted but without effect. old is nil for a new one.
func WarningsControllerInstallation(installation, old *ControllerInstallation) []string {
	if old != nil && equality.Semantic.DeepEqual(installation.Spec, old.Spec) {
		return nil
	}
	var warnings []string
	if installation.Spec.ShootRef != nil {
		warnings = append(warnings, "spec.shootRef has no effect: self-hosted Shoots are not supported")
	}
	if len(installation.Spec.ResourceRefs) > 0 {
		warnings = append(warnings, "spec.resourceRefs has no effect: "+
			"extensions get the resources that their ControllerDeployment names")
	}
	return warnings
}

// WarningsExposureClass names what is accepted but without effect. old is nil for a new ExposureClass.
func WarningsExposureClass(class, old *ExposureClass) []string {
	if class.Handler == "" || old != nil && class.Handler == old.Handler {
		return nil
	}
	return []string{"handler has no effect: every API server is exposed in the same way; " +
		"the class only limits which Seeds a Shoot can have"}
}

// WarningsBackupEntry names what is accepted but without effect. old is nil for a new BackupEntry.
func WarningsBackupEntry(entry, old *BackupEntry) []string {
	if entry.Spec.ShootRef != nil && (old == nil || !equality.Semantic.DeepEqual(entry.Spec, old.Spec)) {
		return []string{"spec.shootRef has no effect: self-hosted Shoots are not supported"}
	}
	return nil
}
