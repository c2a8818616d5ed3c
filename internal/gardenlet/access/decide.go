package access

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Window is the part of a certificate's lifetime, in percent, in which it is renewed. The time within the window is
// random, so that gardenlets that were installed together do not renew together.
type Window struct{ From, To int32 }

// renewAt is when a certificate is renewed. chance is at least 0 and below 1.
func renewAt(cert *x509.Certificate, window Window, chance float64) time.Time {
	part := (float64(window.From) + float64(window.To-window.From)*chance) / 100
	return cert.NotBefore.Add(time.Duration(part * float64(cert.NotAfter.Sub(cert.NotBefore))))
}

// newer reports whether the stored certificate is used instead of the given one: it is for the same user, was issued
// later, and has not expired. So a kubeconfig that an operator makes replaces what was renewed before.
func newer(stored, given *x509.Certificate, now time.Time) bool {
	return sameUser(stored, given) && stored.NotBefore.After(given.NotBefore) && now.Before(stored.NotAfter)
}

func sameUser(a, b *x509.Certificate) bool {
	return a.Subject.CommonName == b.Subject.CommonName && slices.Equal(a.Subject.Organization, b.Subject.Organization)
}

// renewable returns why the garden would not renew a certificate; empty if it would.
func renewable(cert *x509.Certificate, seed string) string {
	user := corev1beta1.SeedUserPrefix + seed
	switch {
	case cert == nil:
		return "the kubeconfig contains no client certificate"
	case cert.Subject.CommonName != user:
		return fmt.Sprintf("the certificate is for user %q, not %q", cert.Subject.CommonName, user)
	case !slices.Equal(cert.Subject.Organization, []string{corev1beta1.SeedsGroup}):
		return "the organization of the certificate is not exactly " + corev1beta1.SeedsGroup
	}
	return ""
}

// answer is what became of a request.
type answer int

const (
	waiting answer = iota
	issued
	refused
)

// answered returns what became of a request, and why it was refused.
func answered(r *certificatesv1.CertificateSigningRequest) (answer, string) {
	for _, c := range r.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == certificatesv1.CertificateDenied:
			return refused, "denied: " + c.Message
		case c.Type == certificatesv1.CertificateFailed:
			return refused, "not signed: " + c.Message
		}
	}
	if len(r.Status.Certificate) > 0 {
		return issued, ""
	}
	return waiting, ""
}
