// Package csr reads CertificateSigningRequests for approvers, and writes their decisions.
package csr

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Open reports whether a request is neither approved nor denied yet.
func Open(r *certificatesv1.CertificateSigningRequest) bool {
	decided := func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	}
	return len(r.Status.Certificate) == 0 && !slices.ContainsFunc(r.Status.Conditions, decided)
}

// Parse decodes spec.request.
func Parse(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("not a PEM certificate request")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// ForOnly reports whether a certificate is for one purpose only, client or server.
func ForOnly(purpose certificatesv1.KeyUsage, usages []certificatesv1.KeyUsage) bool {
	for _, u := range usages {
		switch u {
		case purpose, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return false
		}
	}
	return slices.Contains(usages, purpose)
}

// HasAlternativeNames reports whether the request contains names in addition to its subject.
func HasAlternativeNames(r *x509.CertificateRequest) bool {
	return len(r.DNSNames)+len(r.IPAddresses)+len(r.EmailAddresses)+len(r.URIs) > 0
}
