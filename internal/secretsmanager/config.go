package secretsmanager

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// Keys of the data of generated Secrets.
const (
	DataCACert     = "ca.crt"
	DataCAKey      = "ca.key"
	DataCert       = "tls.crt"
	DataKey        = "tls.key"
	DataBundle     = "bundle.crt"
	DataKeyBundle  = "bundle.key"
	DataPrivateRSA = "id_rsa"
	DataPublicRSA  = "id_rsa.pub"
	DataUserName   = "username"
	DataPassword   = "password"
	DataEncKey     = "key"
	DataEncSecret  = "secret"
)

const (
	// defaultRSABits provides a security strength of 128 bits (NIST SP 800-57 part 1, table 2); generating such a key
	// takes well under a second.
	defaultRSABits = 3072
	// passwordBytes is the entropy of a generated password in bytes.
	passwordBytes = 32
	// encryptionKeyBytes is the key length of AES-256 in bytes.
	encryptionKeyBytes = 32
)

// Config describes one Secret to generate. The exported fields of its implementations are its identity: if one changes,
// a new Secret is generated.
type Config interface {
	configName() string
	// signer returns the name of the CA that signs, or "".
	signer() string
	generate(signer *pki.CA, from sources) (map[string][]byte, error)
}

// sources are the inputs of generating a secret.
type sources struct {
	clock   clock.PassiveClock
	rsaBits int
}

// CA is a certificate authority. Its Secret has ca.crt and ca.key, its bundle has bundle.crt.
type CA struct {
	Name       string
	CommonName string
}

func (c CA) configName() string { return c.Name }
func (c CA) signer() string     { return "" }

func (c CA) generate(_ *pki.CA, from sources) (map[string][]byte, error) {
	ca, err := pki.NewCA(c.CommonName, from.clock)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{DataCACert: ca.CertPEM, DataCAKey: ca.KeyPEM}, nil
}

// Certificate is a certificate for a server, a client or both, with its key, and the certificate of the CA that signed
// it: tls.crt, tls.key, ca.crt.
type Certificate struct {
	Name          string
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	Usage         pki.Usage
	// SignedBy is the name of the CA.
	SignedBy string
	// Validity of the certificate; 0 means until the end of the CA.
	Validity time.Duration
	// ForOldPeers is for client certificates whose servers may not trust a new CA yet while a rotation is being prepared:
	// nodes get the new CA when they are replaced. Server certificates are always signed this way.
	ForOldPeers bool `json:",omitempty"`
}

func (c Certificate) configName() string { return c.Name }
func (c Certificate) signer() string     { return c.SignedBy }

func (c Certificate) generate(ca *pki.CA, _ sources) (map[string][]byte, error) {
	pair, err := ca.Issue(pki.Request{
		CommonName: c.CommonName, Organizations: c.Organizations, DNSNames: c.DNSNames, IPs: c.IPs, Usage: c.Usage,
		Validity: c.Validity,
	})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{DataCert: pair.CertPEM, DataKey: pair.KeyPEM, DataCACert: ca.CertPEM}, nil
}

// RSAKey is a key pair: id_rsa and id_rsa.pub. With SSH, the public key is a line for authorized_keys. Otherwise it is
// PEM, and there is a bundle of the valid private keys, bundle.key.
type RSAKey struct {
	Name string
	SSH  bool
}

func (c RSAKey) configName() string { return c.Name }
func (c RSAKey) signer() string     { return "" }

func (c RSAKey) generate(_ *pki.CA, from sources) (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, from.rsaBits)
	if err != nil {
		return nil, fmt.Errorf("make RSA key: %w", err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if !c.SSH {
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("encode public key: %w", err)
		}
		return map[string][]byte{
			DataPrivateRSA: private, DataPublicRSA: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		}, nil
	}
	public, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode SSH public key: %w", err)
	}
	return map[string][]byte{DataPrivateRSA: private, DataPublicRSA: ssh.MarshalAuthorizedKey(public)}, nil
}

// BasicAuth is a user name and a random password: username, password.
type BasicAuth struct {
	Name     string
	UserName string
}

func (c BasicAuth) configName() string { return c.Name }
func (c BasicAuth) signer() string     { return "" }

func (c BasicAuth) generate(*pki.CA, sources) (map[string][]byte, error) {
	password := make([]byte, passwordBytes)
	_, _ = rand.Read(password) // Never fails.
	return map[string][]byte{DataUserName: []byte(c.UserName), DataPassword: []byte(hex.EncodeToString(password))}, nil
}

// EncryptionKey is a key for etcd encryption: its name, and the key in base64, as in the API server's configuration.
type EncryptionKey struct {
	Name string
}

func (c EncryptionKey) configName() string { return c.Name }
func (c EncryptionKey) signer() string     { return "" }

func (c EncryptionKey) generate(_ *pki.CA, from sources) (map[string][]byte, error) {
	key := make([]byte, encryptionKeyBytes)
	_, _ = rand.Read(key) // Never fails.
	return map[string][]byte{
		DataEncKey:    fmt.Appendf(nil, "key%d", from.clock.Now().Unix()),
		DataEncSecret: []byte(base64.StdEncoding.EncodeToString(key)),
	}, nil
}
