package v1beta1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateInternalSecret checks an InternalSecret like a Secret.
func ValidateInternalSecret(secret *InternalSecret) field.ErrorList {
	errs := validateMeta(&secret.ObjectMeta, true, nameIsSubdomain)
	path, total := field.NewPath("data"), 0
	for _, key := range sortedKeys(secret.Data) {
		errs = append(errs, invalid(key, path.Key(key), validation.IsConfigMapKey(key))...)
		total += len(secret.Data[key])
	}
	if total > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(path, "", corev1.MaxSecretSize))
	}
	demand := func(keys ...string) {
		for _, key := range keys {
			if _, ok := secret.Data[key]; !ok {
				errs = append(errs, field.Required(path.Key(key), "must be given for this type"))
			}
		}
	}
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		demand(corev1.DockerConfigJsonKey)
		if raw, ok := secret.Data[corev1.DockerConfigJsonKey]; ok && !json.Valid(raw) {
			errs = append(errs, field.Invalid(path.Key(corev1.DockerConfigJsonKey), "<secret contents redacted>",
				"must be JSON"))
		}
	case corev1.SecretTypeDockercfg:
		demand(corev1.DockerConfigKey)
		if raw, ok := secret.Data[corev1.DockerConfigKey]; ok && !json.Valid(raw) {
			errs = append(errs, field.Invalid(path.Key(corev1.DockerConfigKey), "<secret contents redacted>", "must be JSON"))
		}
	case corev1.SecretTypeBasicAuth:
		_, user := secret.Data[corev1.BasicAuthUsernameKey]
		if _, password := secret.Data[corev1.BasicAuthPasswordKey]; !user && !password {
			demand(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		demand(corev1.SSHAuthPrivateKey)
	case corev1.SecretTypeTLS:
		demand(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return errs
}

// ValidateInternalSecretUpdate checks a changed InternalSecret.
func ValidateInternalSecretUpdate(secret, old *InternalSecret) field.ErrorList {
	errs := validateMetaUpdate(&secret.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateImmutable(secret.Type, old.Type, field.NewPath("type"))...)
	if old.Immutable != nil && *old.Immutable {
		if secret.Immutable == nil || !*secret.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), "cannot be unset"))
		}
		if validateImmutable(secret.Data, old.Data, field.NewPath("data")) != nil {
			errs = append(errs, field.Forbidden(field.NewPath("data"), "cannot be changed while immutable is true"))
		}
	}
	return append(errs, ValidateInternalSecret(secret)...)
}
