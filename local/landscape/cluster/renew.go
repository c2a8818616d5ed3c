package cluster

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// Due reports whether 'hortus up' has to replace a certificate of the landscape: less than a third of its validity is
// left, or it does not exist yet. If 'hortus up' runs once a year, certificates that are valid for five years never
// come close to their expiry.
func Due(pair pki.KeyPair, now time.Time) (bool, error) {
	if len(pair.CertPEM) == 0 {
		return true, nil
	}
	cert, err := pki.ParseCert(pair.CertPEM)
	if err != nil {
		return false, err
	}
	return cert.NotAfter.Sub(now) < cert.NotAfter.Sub(cert.NotBefore)/3, nil
}

// Leaf is a certificate that a CA of the landscape issues.
type Leaf struct {
	Into    *pki.KeyPair
	By      *pki.CA
	Request pki.Request
}

// Renew issues the leaves that are due, and reports whether there were any.
func Renew(leaves []Leaf, c clock.PassiveClock) (changed bool, err error) {
	for _, leaf := range leaves {
		due, err := Due(*leaf.Into, c.Now())
		if err != nil {
			return changed, fmt.Errorf("read certificate %q: %w", leaf.Request.CommonName, err)
		}
		if !due {
			continue
		}
		pair, err := leaf.By.Issue(leaf.Request)
		if err != nil {
			return changed, fmt.Errorf("issue certificate %q: %w", leaf.Request.CommonName, err)
		}
		*leaf.Into, changed = *pair, true
	}
	return changed, nil
}
