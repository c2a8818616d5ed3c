package gardencertificate

import (
	"maps"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// SecretName in the namespace of the garden. The chart makes it.
const SecretName = "hortus-certificates"

const (
	keyCA           = "ca.crt"
	keyCAPrivateKey = "ca.key"
	// validity of certificates, as the chart gives them.
	validity = 365 * 24 * time.Hour
	// renewAfter is the share of a life after which a certificate is replaced.
	renewAfter = 0.8
)

// leaves are the certificates in the Secret, without their endings .crt and .key.
var leaves = []string{"apiserver", "etcd", "etcd-client"}

// renew returns the data that the Secret must have, and when it has to be looked at again. The data is the same map if
// nothing is due. Without the key of the authority somebody else renews; the time is zero then.
func renew(data map[string][]byte, c clock.PassiveClock) (map[string][]byte, time.Time, error) {
	if len(data[keyCAPrivateKey]) == 0 {
		return data, time.Time{}, nil
	}
	ca, err := pki.LoadCA(data[keyCA], data[keyCAPrivateKey], c)
	if err != nil {
		return nil, time.Time{}, err
	}
	out, next := data, time.Time{}
	for _, name := range leaves {
		leaf, err := pki.ParseCert(data[name+".crt"])
		if err != nil {
			return nil, time.Time{}, err
		}
		due := renewal(leaf.NotBefore, leaf.NotAfter)
		switch last := !leaf.NotAfter.Before(ca.Cert().NotAfter); {
		case last:
			due = ca.Cert().NotAfter // No other one would be valid for longer.
		case !c.Now().Before(due):
			pair, err := ca.Issue(pki.Request{
				CommonName: leaf.Subject.CommonName, DNSNames: leaf.DNSNames, Usage: pki.Server | pki.Client, Validity: validity,
			})
			if err != nil {
				return nil, time.Time{}, err
			}
			out = maps.Clone(out)
			out[name+".crt"], out[name+".key"] = pair.CertPEM, pair.KeyPEM
			due = renewal(c.Now(), c.Now().Add(validity))
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return out, next, nil
}

// renewal is when a certificate is replaced whose life is given.
func renewal(notBefore, notAfter time.Time) time.Time {
	return notBefore.Add(time.Duration(float64(notAfter.Sub(notBefore)) * renewAfter))
}
