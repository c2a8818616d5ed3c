package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var day0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// issued returns a certificate of a user with the organization of gardenlets.
func issuedTo(user string, from time.Time, life time.Duration, organizations ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: user, Organization: append([]string{corev1beta1.SeedsGroup}, organizations...)},
		NotBefore: from, NotAfter: from.Add(life),
	}
}

func TestRenewAt(t *testing.T) {
	year := issuedTo("a", day0, 1000*day)
	for name, tc := range map[string]struct {
		window Window
		chance float64
		want   time.Duration
	}{
		"the beginning of the window": {Window{80, 90}, 0, 800 * day},
		"its middle":                  {Window{80, 90}, 0.5, 850 * day},
		"near its end":                {Window{80, 90}, 0.99, 899 * day},
		"a window without length":     {Window{50, 50}, 0.7, 500 * day},
	} {
		if got := renewAt(year, tc.window, tc.chance).Sub(day0); got.Round(time.Minute) != tc.want {
			t.Errorf("%s: renewed after %s, want %s", name, got, tc.want)
		}
	}
}

func TestNewer(t *testing.T) {
	given := issuedTo("a", day0, 100*day)
	for name, tc := range map[string]struct {
		stored *x509.Certificate
		now    time.Duration
		want   bool
	}{
		"renewed":                                  {issuedTo("a", day0.Add(80*day), 100*day), 85 * day, true},
		"renewed, and the given one has expired":   {issuedTo("a", day0.Add(80*day), 100*day), 150 * day, true},
		"both have expired":                        {issuedTo("a", day0.Add(80*day), 100*day), 200 * day, false},
		"the operator replaces it after a renewal": {issuedTo("a", day0.Add(-80*day), 400*day), day, false},
		"the same":                                 {given, day, false},
		"of another seed":                          {issuedTo("b", day0.Add(80*day), 100*day), 85 * day, false},
		"of the same user with more groups": {
			issuedTo("a", day0.Add(80*day), 100*day, "system:masters"), 85 * day, false,
		},
		"renewed with a shorter lifetime": {issuedTo("a", day0.Add(80*day), 10*day), 85 * day, true},
	} {
		if got := newer(tc.stored, given, day0.Add(tc.now)); got != tc.want {
			t.Errorf("%s: newer() = %t", name, got)
		}
	}
}

func TestRenewable(t *testing.T) {
	for name, tc := range map[string]struct {
		cert *x509.Certificate
		why  string
	}{
		"of the seed":        {issuedTo(corev1beta1.SeedUserPrefix+"own", day0, day), ""},
		"none":               {nil, "no client certificate"},
		"of another seed":    {issuedTo(corev1beta1.SeedUserPrefix+"other", day0, day), "is for user"},
		"of an operator":     {issuedTo("admin", day0, day), "is for user"},
		"with more groups":   {issuedTo(corev1beta1.SeedUserPrefix+"own", day0, day, "system:masters"), "organization"},
		"without the prefix": {issuedTo("own", day0, day), "is for user"},
	} {
		if why := renewable(tc.cert, "own"); (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) {
			t.Errorf("%s: renewable() = %q, want %q", name, why, tc.why)
		}
	}
}

func TestAnswered(t *testing.T) {
	condition := func(kind certificatesv1.RequestConditionType,
		message string) certificatesv1.CertificateSigningRequestStatus {
		return certificatesv1.CertificateSigningRequestStatus{
			Conditions: []certificatesv1.CertificateSigningRequestCondition{{
				Type: kind, Status: corev1.ConditionTrue, Message: message,
			}}}
	}
	signed := condition(certificatesv1.CertificateApproved, "")
	signed.Certificate = []byte("certificate")
	for name, tc := range map[string]struct {
		status certificatesv1.CertificateSigningRequestStatus
		want   answer
		why    string
	}{
		"nobody has looked": {certificatesv1.CertificateSigningRequestStatus{}, waiting, ""},
		"approved":          {condition(certificatesv1.CertificateApproved, ""), waiting, ""},
		"signed":            {signed, issued, ""},
		"denied":            {condition(certificatesv1.CertificateDenied, "no"), refused, "denied: no"},
		"failed":            {condition(certificatesv1.CertificateFailed, "no"), refused, "not signed: no"},
	} {
		got, why := answered(&certificatesv1.CertificateSigningRequest{Status: tc.status})
		if got != tc.want || why != tc.why {
			t.Errorf("%s: answered() = %v, %q; want %v, %q", name, got, why, tc.want, tc.why)
		}
	}
}
