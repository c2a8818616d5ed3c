package certificate

import (
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// Keys of the Secret.
const (
	keyCA           = "ca.crt"
	keyCAPrivateKey = "ca.key"
)

// validity of the serving certificate.
const validity = 90 * 24 * time.Hour

// next returns the data that the Secret must have, and when it has to be checked again. authority is the common name of
// the CA, which stays as long as it can, so that the API server need not learn of another one.
func next(
	data map[string][]byte, authority string, names []string, c clock.PassiveClock,
) (map[string][]byte, time.Time, error) {
	ca, err := pki.LoadCA(data[keyCA], data[keyCAPrivateKey], c)
	if err != nil || !c.Now().Before(pki.RenewalTime(ca.Cert().NotBefore, ca.Cert().NotAfter)) {
		if ca, err = pki.NewCA(authority, c); err != nil {
			return nil, time.Time{}, err
		}
		data = nil
	}
	if _, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err == nil {
		served, err := pki.ParseCert(data[corev1.TLSCertKey])
		if err == nil && slices.Equal(served.DNSNames, names) && served.CheckSignatureFrom(ca.Cert()) == nil {
			if due := pki.RenewalTime(served.NotBefore, served.NotAfter); c.Now().Before(due) {
				return data, due, nil
			}
		}
	}
	pair, err := ca.Issue(pki.Request{CommonName: names[0], DNSNames: names, Usage: pki.Server, Validity: validity})
	if err != nil {
		return nil, time.Time{}, err
	}
	served, err := pki.ParseCert(pair.CertPEM)
	if err != nil {
		return nil, time.Time{}, err
	}
	return map[string][]byte{
		keyCA: ca.CertPEM, keyCAPrivateKey: ca.KeyPEM, corev1.TLSCertKey: pair.CertPEM, corev1.TLSPrivateKeyKey: pair.KeyPEM,
	}, pki.RenewalTime(served.NotBefore, served.NotAfter), nil
}

// served is the certificate of a Secret, parsed once per version of it.
type served struct {
	mutex       sync.Mutex
	version     string
	certificate *tls.Certificate
}

func (s *served) of(secret *corev1.Secret) (*tls.Certificate, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.certificate == nil || s.version != secret.ResourceVersion {
		pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return nil, fmt.Errorf("read certificate in Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		s.version, s.certificate = secret.ResourceVersion, &pair
	}
	return s.certificate, nil
}
