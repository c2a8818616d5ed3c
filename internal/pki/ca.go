package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
)

const (
	// caValidity is the validity of a new CA. CAs are replaced by rotation before they expire.
	caValidity = 10 * 365 * 24 * time.Hour
	// backdate moves the beginning of the validity back, because clocks of machines differ slightly.
	backdate = time.Minute
	// renewAfter is the share of its lifetime after which a certificate is renewed.
	renewAfter = 0.8
	// serialBits keeps serial numbers positive and below the 20 octets that RFC 5280 (4.1.2.2) allows.
	serialBits = 128
)

// Usage is the use of a certificate in TLS: client, server or both.
type Usage int

// Usages can be combined with |; etcd peers need both sides.
const (
	Client Usage = 1 << iota
	Server
)

// KeyPair is a certificate and its private key, both PEM encoded.
type KeyPair struct {
	CertPEM []byte
	KeyPEM  []byte
}

// CA signs certificates. Its KeyPair must be stored to load it again.
type CA struct {
	KeyPair
	cert  *x509.Certificate
	key   crypto.Signer
	clock clock.PassiveClock
}

// Request describes a certificate for [CA.Issue].
type Request struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	Usage         Usage
	// Validity is the validity of the certificate from now on; 0 and values beyond the CA's end mean the CA's end.
	Validity time.Duration
}

// NewCA returns a self-signed CA that is valid for ten years from the clock's time.
func NewCA(commonName string, c clock.PassiveClock) (*CA, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make key of CA %q: %w", commonName, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("make serial number of CA %q: %w", commonName, err)
	}
	now := c.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate).UTC(),
		NotAfter:              now.Add(caValidity).UTC(),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign CA %q: %w", commonName, err)
	}
	return LoadCA(encodeCert(der), keyPEM, c)
}

// LoadCA reads a stored CA. Certificates after the first one are not used to sign, but kept in CertPEM.
func LoadCA(certPEM, keyPEM []byte, c clock.PassiveClock) (*CA, error) {
	cert, err := ParseCert(certPEM)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("load CA %q: the certificate is not one of a CA", cert.Subject.CommonName)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("load key of CA %q: %w", cert.Subject.CommonName, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("load key of CA %q: a %T cannot sign", cert.Subject.CommonName, parsed)
	}
	public, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("load CA %q: key and certificate do not belong together", cert.Subject.CommonName)
	}
	return &CA{KeyPair: KeyPair{CertPEM: certPEM, KeyPEM: keyPEM}, cert: cert, key: key, clock: c}, nil
}

// Cert returns the parsed certificate of the CA; callers must not change it.
func (ca *CA) Cert() *x509.Certificate { return ca.cert }

// Issue generates a key and signs a certificate for it.
func (ca *CA) Issue(r Request) (*KeyPair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make key of %q: %w", r.CommonName, err)
	}
	certPEM, err := ca.Sign(r, key.Public())
	if err != nil {
		return nil, err
	}
	return &KeyPair{CertPEM: certPEM, KeyPEM: keyPEM}, nil
}

// Sign signs a certificate for a public key whose private key another party holds, and returns it PEM encoded.
func (ca *CA) Sign(r Request, public crypto.PublicKey) ([]byte, error) {
	if r.Usage&(Client|Server) == 0 {
		return nil, fmt.Errorf("sign certificate of %q: it is neither for a client nor for a server", r.CommonName)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("make serial number of %q: %w", r.CommonName, err)
	}
	now := ca.clock.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: r.CommonName, Organization: r.Organizations},
		DNSNames:     r.DNSNames,
		IPAddresses:  r.IPs,
		NotBefore:    latest(now.Add(-backdate), ca.cert.NotBefore).UTC(),
		NotAfter:     ca.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	if end := now.Add(r.Validity); r.Validity > 0 && end.Before(ca.cert.NotAfter) {
		template.NotAfter = end.UTC()
	}
	if r.Usage&Client != 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if r.Usage&Server != 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, public, ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %q: %w", r.CommonName, err)
	}
	return encodeCert(der), nil
}

// NewRequest generates a key and a certificate signing request, both PEM encoded, for a signer that does not expose its
// CA.
func NewRequest(commonName string, organizations []string) (requestPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, fmt.Errorf("make key of %q: %w", commonName, err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName, Organization: organizations}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate request of %q: %w", commonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), keyPEM, nil
}

// NewSigningKey generates a key pair for service account tokens: the private key signs, the public key verifies.
func NewSigningKey() (privatePEM, publicPEM []byte, err error) {
	key, privatePEM, err := newKey()
	if err != nil {
		return nil, nil, fmt.Errorf("make signing key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encode public signing key: %w", err)
	}
	return privatePEM, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), nil
}

// ParseCert reads the first certificate of a PEM document.
func ParseCert(certPEM []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(bytes.TrimSpace(certPEM))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM encoded certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return cert, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: keyutil.ECPrivateKeyBlockType, Bytes: der}), nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// RenewalTime returns the time at which a certificate with this lifetime is renewed: 80 % of it has passed.
func RenewalTime(notBefore, notAfter time.Time) time.Time {
	return notBefore.Add(time.Duration(float64(notAfter.Sub(notBefore)) * renewAfter))
}
