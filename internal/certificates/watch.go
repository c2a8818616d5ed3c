package certificates

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"
)

// Watch follows the certificates in use while a test moves the clock. It reports certificates that are used outside of
// their validity, and those that are replaced earlier or later than the table says.
type Watch struct {
	t    tester
	rows []Row
	// within is the maximum delay of a renewal after the time in the table.
	within time.Duration
	used   map[string]*x509.Certificate
	// replaced counts the renewals.
	replaced map[string]int
}

type tester interface {
	Helper()
	Errorf(format string, args ...any)
}

// NewWatch returns a Watch with no certificate in use.
func NewWatch(t tester, rows []Row, within time.Duration) *Watch {
	return &Watch{t: t, rows: rows, within: within, used: map[string]*x509.Certificate{}, replaced: map[string]int{}}
}

// Use records a certificate that is in use at a time. If a different CA signed the previous one, this is no renewal:
// the CA has been rotated.
func (w *Watch) Use(name string, cert *x509.Certificate, now time.Time) {
	w.t.Helper()
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		w.t.Errorf("%s: %q is used, which is valid from %s to %s", now, name, cert.NotBefore, cert.NotAfter)
	}
	before := w.used[name]
	w.used[name] = cert
	if before == nil || before.Equal(cert) || !bytes.Equal(before.AuthorityKeyId, cert.AuthorityKeyId) || cert.IsCA {
		return
	}
	w.replaced[name]++
	row := w.row(name)
	if row == nil || row.Renewal.From == 0 {
		w.t.Errorf("%s: %q has been replaced; the table does not say when that is", now, name)
		return
	}
	from := before.NotBefore.Add(time.Duration(row.Renewal.From * float64(before.NotAfter.Sub(before.NotBefore))))
	if now.Before(from) || now.After(from.Add(w.within)) {
		w.t.Errorf("%s: %q has been replaced; the table says from %s on, at the latest %s later", now, name, from, w.within)
	}
}

// Done reports certificates of the table that were not in use, and returns the number of renewals of each. Keys without
// an end need not be used.
func (w *Watch) Done() map[string]int {
	w.t.Helper()
	for _, row := range w.rows {
		for _, name := range row.Names {
			if w.used[name] == nil && (row.Life > 0 || row.LifeText != "") {
				w.t.Errorf("%q is in the table of certificates, but was not in use", name)
			}
		}
	}
	return w.replaced
}

func (w *Watch) row(name string) *Row {
	for i := range w.rows {
		if slices.Contains(w.rows[i].Names, name) {
			return &w.rows[i]
		}
	}
	return nil
}

// Named returns the rows of the table with these names.
func Named(rows []Row, names ...string) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		return !slices.ContainsFunc(r.Names, func(name string) bool { return slices.Contains(names, name) })
	})
}
