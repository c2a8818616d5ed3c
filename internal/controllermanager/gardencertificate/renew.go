package gardencertificate

import (
	"maps"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// SecretName is the name of the Secret in the namespace of the garden. The chart creates it.
const SecretName = "hortus-certificates"

const (
	keyCA           = "ca.crt"
	keyCAPrivateKey = "ca.key"
	// validity of new certificates, the same as in the chart.
	validity = 365 * 24 * time.Hour
)

// leaves are the certificates in the Secret, without their endings .crt and .key.
var leaves = []string{"apiserver", "etcd", "etcd-client"}

// renew returns the new data of the Secret and the time of the next check. It returns the same map if nothing is due.
// Without the private key of the authority another party renews the certificates, and the time is zero.
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
		due := pki.RenewalTime(leaf.NotBefore, leaf.NotAfter)
		switch last := !leaf.NotAfter.Before(ca.Cert().NotAfter); {
		case last:
			due = ca.Cert().NotAfter // A new one would not be valid for longer.
		case !c.Now().Before(due):
			pair, err := ca.Issue(pki.Request{
				CommonName: leaf.Subject.CommonName, DNSNames: leaf.DNSNames, Usage: pki.Server | pki.Client, Validity: validity,
			})
			if err != nil {
				return nil, time.Time{}, err
			}
			out = maps.Clone(out)
			out[name+".crt"], out[name+".key"] = pair.CertPEM, pair.KeyPEM
			due = pki.RenewalTime(c.Now(), c.Now().Add(validity))
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return out, next, nil
}
