package certificates

import (
	"crypto/x509"
	"testing"
	"time"
)

// TestWatch: a Watch reports certificates that are used outside of their validity, or replaced at another time than in
// the table.
func TestWatch(t *testing.T) {
	begin := time.Unix(2e9, 0)
	cert := func(from time.Duration, ca string) *x509.Certificate {
		start := begin.Add(from)
		return &x509.Certificate{
			Raw: []byte(start.String() + ca), NotBefore: start, NotAfter: start.Add(Year), AuthorityKeyId: []byte(ca),
		}
	}
	first := cert(0, "a")
	rows := []Row{
		{Names: []string{"leaf"}, Life: Year, Renewal: Renewal{From: 0.8}},
		{Names: []string{"manual"}, Life: Year, Renewal: Renewal{ByHand: true}},
		{Names: []string{"key"}},
	}
	for name, tc := range map[string]struct {
		row    string
		next   *x509.Certificate
		at     time.Duration
		errors int
	}{
		"in its life":                    {"leaf", first, 364 * Day, 0},
		"expired":                        {"leaf", first, 366 * Day, 1},
		"not valid yet":                  {"leaf", first, -time.Hour, 1},
		"replaced in time":               {"leaf", cert(292*Day, "a"), 292 * Day, 0},
		"replaced early":                 {"leaf", cert(291*Day, "a"), 291 * Day, 1},
		"replaced late":                  {"leaf", cert(294*Day, "a"), 294 * Day, 1},
		"replaced, not valid yet":        {"leaf", cert(293*Day, "a"), 292 * Day, 1},
		"its CA is rotated":              {"leaf", cert(9*Day, "b"), 9 * Day, 0},
		"replaced by nobody":             {"manual", cert(292*Day, "a"), 292 * Day, 1},
		"another certificate is watched": {"leaf of another", cert(292*Day, "a"), 292 * Day, 1},
	} {
		counted := &counter{}
		w := NewWatch(counted, rows, Day)
		w.Use(tc.row, first, begin)
		w.Use(tc.row, tc.next, begin.Add(tc.at))
		if counted.errors != tc.errors {
			t.Errorf("%s: %d errors, want %d", name, counted.errors, tc.errors)
		}
	}
	counted := &counter{}
	w := NewWatch(counted, rows, Day)
	w.Use("leaf", first, begin)
	if w.Done(); counted.errors != 1 {
		t.Errorf("one of two that expire is not in use: %d errors, want 1", counted.errors)
	}
}
