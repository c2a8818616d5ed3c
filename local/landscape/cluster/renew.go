package cluster

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// Due reports whether a certificate of the landscape is replaced by 'hortus up': less than a third of its life is left,
// or there is none yet. A landscape that is brought up once a year never gets near the end of those for five years.
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

// Renew issues those that are due, and reports whether there were any.
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
