package shoot

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	authenticationv1alpha1 "hortus.dev/hortus/api/authentication/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestAddressesInKubeconfigs(t *testing.T) {
	resolve := func(_ context.Context, host string) (string, error) {
		switch host {
		case "known.example.org":
			return "10.0.0.1", nil
		case "six.example.org":
			return "fd00::1", nil
		}
		return "", errors.New("no such host")
	}
	for name, tc := range map[string]struct {
		issuer KubeconfigIssuer
		url    string
		want   server
	}{
		"names stay names": {
			KubeconfigIssuer{}, "https://known.example.org", server{"a", "https://known.example.org", ""},
		},
		"names become addresses": {
			KubeconfigIssuer{Resolve: resolve}, "https://known.example.org",
			server{"a", "https://10.0.0.1", "known.example.org"},
		},
		"ports stay": {
			KubeconfigIssuer{Resolve: resolve}, "https://known.example.org:6443",
			server{"a", "https://10.0.0.1:6443", "known.example.org"},
		},
		"IPv6 addresses have brackets": {
			KubeconfigIssuer{Resolve: resolve}, "https://six.example.org", server{"a", "https://[fd00::1]", "six.example.org"},
		},
		"and with a port": {
			KubeconfigIssuer{Resolve: resolve}, "https://six.example.org:6443",
			server{"a", "https://[fd00::1]:6443", "six.example.org"},
		},
		"addresses stay": {
			KubeconfigIssuer{Resolve: resolve}, "https://10.0.0.2", server{"a", "https://10.0.0.2", ""},
		},
		"unknown names stay": {
			KubeconfigIssuer{Resolve: resolve}, "https://unknown.example.org", server{"a", "https://unknown.example.org", ""},
		},
	} {
		got := tc.issuer.server(t.Context(), corev1beta1.ShootAdvertisedAddress{Name: "a", URL: tc.url})
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(server{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLifetimeOfCredentials(t *testing.T) {
	rest := &kubeconfigREST[*authenticationv1alpha1.ViewerKubeconfigRequest]{
		audience: viewer(KubeconfigIssuer{MaxViewer: 2 * time.Hour}),
	}
	for name, tc := range map[string]struct {
		seconds *int64
		want    time.Duration
	}{
		"as long as usual":            {nil, time.Hour},
		"as long as requested":        {new(int64(600)), 10 * time.Minute},
		"cut to the server's maximum": {new(int64(86400)), 2 * time.Hour},
	} {
		request := &authenticationv1alpha1.ViewerKubeconfigRequest{
			Spec: authenticationv1alpha1.ViewerKubeconfigRequestSpec{ExpirationSeconds: tc.seconds},
		}
		if got := rest.lifetime(request); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
