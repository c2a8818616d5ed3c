package csr

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/csr"
)

// ours reports whether a request is open, its certificate would have the rights of a gardenlet, and a gardenlet asks
// for it. Requests of others are left to whoever may approve them: so an operator gives a gardenlet its first
// certificate.
func ours(r *certificatesv1.CertificateSigningRequest) bool {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || !csr.Open(r) || seedOf(r) == "" {
		return false
	}
	parsed, err := csr.Parse(r.Spec.Request)
	return err == nil && (strings.HasPrefix(parsed.Subject.CommonName, corev1beta1.SeedUserPrefix) ||
		slices.Contains(parsed.Subject.Organization, corev1beta1.SeedsGroup))
}

// seedOf returns the name of the Seed whose gardenlet made a request; empty if it was somebody else.
func seedOf(r *certificatesv1.CertificateSigningRequest) string {
	seed, isSeed := strings.CutPrefix(r.Spec.Username, corev1beta1.SeedUserPrefix)
	if !isSeed || !slices.Contains(r.Spec.Groups, corev1beta1.SeedsGroup) {
		return ""
	}
	return seed
}

// decide reports whether a request is approved, and why or why not. registered tells whether the Seed of the requester
// exists.
func decide(r *certificatesv1.CertificateSigningRequest, registered bool) (approved bool, message string) {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return false, fmt.Sprintf("cannot read the request: %v", err)
	}
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{parsed.Subject.CommonName == r.Spec.Username, "the common name is not that of the requester"},
		{
			slices.Equal(parsed.Subject.Organization, []string{corev1beta1.SeedsGroup}),
			"the organization is not exactly " + corev1beta1.SeedsGroup,
		},
		{!csr.HasAlternativeNames(parsed), "alternative names are not allowed"},
		{csr.ForOnly(certificatesv1.UsageClientAuth, r.Spec.Usages), "the usages are not those of a client certificate"},
		{registered, "the Seed does not exist"},
	} {
		if !rule.holds {
			return false, rule.why
		}
	}
	return true, "the gardenlet renews its certificate"
}
