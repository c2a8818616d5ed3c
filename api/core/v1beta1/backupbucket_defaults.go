package v1beta1

// SetDefaultsBackupBucket accepts the older spelling of the reference to credentials.
func SetDefaultsBackupBucket(bucket *BackupBucket) {
	setDefaultCredentialsRef(&bucket.Spec.CredentialsRef, bucket.Spec.SecretRef)
}
