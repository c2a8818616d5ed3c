package v1beta1

// SetDefaultsSecretBinding fills the empty fields of a SecretBinding that have a default.
func SetDefaultsSecretBinding(binding *SecretBinding) {
	if binding.SecretRef.Namespace == "" {
		binding.SecretRef.Namespace = binding.Namespace
	}
	for i := range binding.Quotas {
		if binding.Quotas[i].Namespace == "" {
			binding.Quotas[i].Namespace = binding.Namespace
		}
	}
}
