package steps

import (
	"context"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
)

// AdvertisedAddresses publishes the addresses of the API server for users.
var AdvertisedAddresses = &flow.Step[*Scope]{
	Name:   "advertised-addresses",
	After:  []*flow.Step[*Scope]{GatewayAddress},
	Ensure: use2(ensureAdvertisedAddresses),
}

func ensureAdvertisedAddresses(_ context.Context, s *Values, status *Status) (flow.Outcome, error) {
	if err := requireDomain(s); err != nil {
		return flow.Outcome{}, err
	}
	want := advertisedAddresses(s)
	status.change(func(to *corev1beta1.ShootStatus) { to.AdvertisedAddresses = want })
	return flow.Done(), nil
}

func advertisedAddresses(s *Values) []corev1beta1.ShootAdvertisedAddress {
	var list []corev1beta1.ShootAdvertisedAddress
	add := func(name, url string) {
		list = append(list, corev1beta1.ShootAdvertisedAddress{Name: name, URL: url, Application: ptr.To("kube-apiserver")})
	}
	if d := s.ExternalDomain(); d != "" {
		add(corev1beta1.AdvertisedAddressExternal, "https://api."+d)
	}
	add(corev1beta1.AdvertisedAddressInternal, "https://"+s.InternalHost())
	if s.externallyUnmanaged() && s.Shoot.Spec.DNS.Domain != nil {
		add(corev1beta1.AdvertisedAddressUnmanaged, "https://api."+*s.Shoot.Spec.DNS.Domain)
	}
	add(corev1beta1.AdvertisedAddressServiceAccountIssuer, issuer(s))
	return list
}

// issuer of service account tokens: the user's, or the API server's internal address.
func issuer(s *Values) string {
	if c := s.Shoot.Spec.Kubernetes.KubeAPIServer; c != nil && c.ServiceAccountConfig != nil &&
		c.ServiceAccountConfig.Issuer != nil {
		return *c.ServiceAccountConfig.Issuer
	}
	return "https://" + s.InternalHost()
}
