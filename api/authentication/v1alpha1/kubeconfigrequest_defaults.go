package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// DefaultExpirationSeconds is the lifetime of credentials if the request has none.
const DefaultExpirationSeconds int64 = 3600

// AddDefaults makes the decoders of a scheme apply the defaults of this package. The API server's scheme does.
func AddDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&AdminKubeconfigRequest{}, func(obj any) {
		setDefaultsExpiration(&obj.(*AdminKubeconfigRequest).Spec.ExpirationSeconds)
	})
	scheme.AddTypeDefaultingFunc(&ViewerKubeconfigRequest{}, func(obj any) {
		setDefaultsExpiration(&obj.(*ViewerKubeconfigRequest).Spec.ExpirationSeconds)
	})
}

func setDefaultsExpiration(seconds **int64) {
	if *seconds == nil {
		value := DefaultExpirationSeconds
		*seconds = &value
	}
}
