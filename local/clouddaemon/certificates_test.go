package clouddaemon

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/certificates"
	"hortus.dev/hortus/internal/pki"
)

// TestCertificatesOverTime: the cloud has a valid certificate for each connection, until its CA expires after 10 years,
// whether it runs all the time or is restarted. Each new one expires later than the previous one.
func TestCertificatesOverTime(t *testing.T) {
	const ca, serving = "local cloud, CA", "local cloud, serving"
	begin := time.Unix(2e9, 0)
	for name, tc := range map[string]struct {
		last, step time.Duration
		restarts   bool
		replaced   int
	}{
		"13 months":                    {last: 396 * certificates.Day, step: certificates.Day, replaced: 1},
		"13 months, started every day": {last: 396 * certificates.Day, step: certificates.Day, restarts: true, replaced: 1},
		"10 years": {
			last: 10*certificates.Year - certificates.Day, step: 10 * certificates.Day, replaced: 11,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testclock.NewFakeClock(begin)
			c := &Cloud{
				cfg:   Config{Dir: t.TempDir(), Public: netip.MustParsePrefix("198.18.0.0/16"), Listen: []string{"198.18.0.1:443"}},
				clock: clock, log: slog.New(slog.DiscardHandler),
			}
			watch := certificates.NewWatch(t, certificates.Named(certificates.LandscapeOther, ca, serving), tc.step+time.Hour)
			show, err := c.serverCertificates()
			for at := time.Duration(0); err == nil && at <= tc.last; at += tc.step {
				clock.SetTime(begin.Add(at))
				if tc.restarts {
					if show, err = c.serverCertificates(); err != nil {
						break
					}
				}
				shown, err := show(nil)
				if err != nil {
					t.Fatal(err)
				}
				watch.Use(serving, shown.Leaf, clock.Now())
				authority, err := pki.ParseCert(c.ca)
				if err != nil {
					t.Fatal(err)
				}
				watch.Use(ca, authority, clock.Now())
			}
			if err != nil {
				t.Fatal(err)
			}
			if replaced := watch.Done()[serving]; replaced != tc.replaced {
				t.Errorf("replaced %d times, want %d", replaced, tc.replaced)
			}
		})
	}
}
