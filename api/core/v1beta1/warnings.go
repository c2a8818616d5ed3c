package v1beta1

// WarningsSecretBinding names what is accepted but deprecated.
func WarningsSecretBinding(*SecretBinding, *SecretBinding) []string {
	return []string{"SecretBinding is deprecated, use security.gardener.cloud/v1alpha1 CredentialsBinding"}
}

// WarningsSeed names what is accepted but deprecated. Fields with a newer spelling are named only while that is empty,
// since the API server keeps the two equal.
func WarningsSeed(seed, _ *Seed) []string {
	var warnings []string
	if backup := seed.Spec.Backup; backup != nil && backup.SecretRef != nil && backup.CredentialsRef == nil {
		warnings = append(warnings, "spec.backup.secretRef is deprecated, use credentialsRef")
	}
	if provider := seed.Spec.DNS.Provider; provider != nil && provider.SecretRef != nil && provider.CredentialsRef == nil {
		warnings = append(warnings, "spec.dns.provider.secretRef is deprecated, use credentialsRef")
	}
	return warnings
}

// WarningsBackupBucket names what is accepted but deprecated, as WarningsSeed does.
func WarningsBackupBucket(bucket, _ *BackupBucket) []string {
	if bucket.Spec.SecretRef != nil && bucket.Spec.CredentialsRef == nil {
		return []string{"spec.secretRef is deprecated, use credentialsRef"}
	}
	return nil
}
