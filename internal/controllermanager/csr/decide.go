package csr

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/csr"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
)

// ours reports whether a request is pending, its certificate would have the permissions of a gardenlet, and a gardenlet
// made it, with a certificate or with a bootstrap token. Other requests are left to other approvers.
func ours(r *certificatesv1.CertificateSigningRequest) bool {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || !csr.Open(r) {
		return false
	}
	if _, joins := bootstraptoken.SecretOf(r.Spec.Username, r.Spec.Groups); !joins && seedOf(r) == "" {
		return false
	}
	parsed, err := csr.Parse(r.Spec.Request)
	return err == nil && (strings.HasPrefix(parsed.Subject.CommonName, corev1beta1.SeedUserPrefix) ||
		slices.Contains(parsed.Subject.Organization, corev1beta1.SeedsGroup))
}

// seedOf returns the name of the Seed whose gardenlet made a request; empty if no gardenlet did.
func seedOf(r *certificatesv1.CertificateSigningRequest) string {
	seed, isSeed := strings.CutPrefix(r.Spec.Username, corev1beta1.SeedUserPrefix)
	if !isSeed || !slices.Contains(r.Spec.Groups, corev1beta1.SeedsGroup) {
		return ""
	}
	return seed
}

// wanted returns the Seed for whose gardenlet a certificate is requested; empty if it is for none.
func wanted(r *certificatesv1.CertificateSigningRequest) string {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return ""
	}
	seed, isSeed := strings.CutPrefix(parsed.Subject.CommonName, corev1beta1.SeedUserPrefix)
	if !isSeed {
		return ""
	}
	return seed
}

// requester is the gardenlet that made a request.
type requester struct {
	seed string
	// joins is true if it has no certificate yet.
	joins bool
	// installs is the ManagedSeed whose gardenlet it installs, if the request is for that one; empty otherwise.
	installs string
	// problem is the reason why no request of the gardenlet is approved; empty if there is none.
	problem string
}

// decide reports whether a request is approved, and the reason.
func decide(r *certificatesv1.CertificateSigningRequest, by requester) (approved bool, message string) {
	parsed, err := csr.Parse(r.Spec.Request)
	if err != nil {
		return false, fmt.Sprintf("cannot read the request: %v", err)
	}
	for _, rule := range []struct {
		holds bool
		why   string
	}{
		{
			parsed.Subject.CommonName == corev1beta1.SeedUserPrefix+by.seed ||
				by.installs != "" && parsed.Subject.CommonName == corev1beta1.SeedUserPrefix+by.installs,
			fmt.Sprintf("the common name is not that of the gardenlet of Seed %q, which has made the request, or of a gardenlet "+
				"that it installs for a ManagedSeed", by.seed),
		},
		{
			slices.Equal(parsed.Subject.Organization, []string{corev1beta1.SeedsGroup}),
			"the organization is not exactly " + corev1beta1.SeedsGroup,
		},
		{!csr.HasAlternativeNames(parsed), "alternative names are not allowed"},
		{csr.ForOnly(certificatesv1.UsageClientAuth, r.Spec.Usages), "the usages are not those of a client certificate"},
		{by.problem == "", by.problem},
	} {
		if !rule.holds {
			return false, rule.why
		}
	}
	if by.joins {
		return true, "the gardenlet has a token for its first certificate"
	}
	if by.installs != "" {
		return true, fmt.Sprintf("the gardenlet installs that of ManagedSeed %q", by.installs)
	}
	return true, "the gardenlet renews its certificate"
}
