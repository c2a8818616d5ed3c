package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// defaultExpirationSeconds is the lifetime of a token if the request has none.
const defaultExpirationSeconds = 3600

// AddDefaults makes the decoders of a scheme apply the defaults of this package. The API server's scheme does.
func AddDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&CredentialsBinding{}, func(obj any) {
		SetDefaultsCredentialsBinding(obj.(*CredentialsBinding))
	})
	scheme.AddTypeDefaultingFunc(&CredentialsBindingList{}, func(obj any) {
		for i := range obj.(*CredentialsBindingList).Items {
			SetDefaultsCredentialsBinding(&obj.(*CredentialsBindingList).Items[i])
		}
	})
	scheme.AddTypeDefaultingFunc(&TokenRequest{}, func(obj any) {
		if spec := &obj.(*TokenRequest).Spec; spec.ExpirationSeconds == nil {
			seconds := int64(defaultExpirationSeconds)
			spec.ExpirationSeconds = &seconds
		}
	})
}

// SetDefaultsCredentialsBinding fills the empty namespaces of references.
func SetDefaultsCredentialsBinding(binding *CredentialsBinding) {
	if binding.CredentialsRef.Namespace == "" {
		binding.CredentialsRef.Namespace = binding.Namespace
	}
	for i := range binding.Quotas {
		if binding.Quotas[i].Namespace == "" {
			binding.Quotas[i].Namespace = binding.Namespace
		}
	}
}
