package metrics

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestOnlyLoopbackNeedsNoCredentials(t *testing.T) {
	for address, secure := range map[string]bool{
		"0": false, "127.0.0.1:8080": false, "127.1.2.3:8080": false, "[::1]:8080": false,
		":8443": true, "0.0.0.0:8443": true, "[::]:8443": true, "10.0.0.1:8443": true, "localhost:8080": true,
	} {
		options, err := Server(address, &rest.Config{})
		if err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if options.BindAddress != address || options.SecureServing != secure || (options.FilterProvider != nil) != secure {
			t.Errorf("%s: %+v, want credentials: %v", address, options, secure)
		}
	}
	for _, address := range []string{"", "8080", "127.0.0.1"} {
		if _, err := Server(address, &rest.Config{}); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
}
