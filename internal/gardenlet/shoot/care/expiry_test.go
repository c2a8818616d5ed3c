package care

import (
	"strings"
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		server, client time.Duration // From now on; 0 is not known.
		want           string        // Part of the message after "certificate of the "; empty for no warning.
	}{
		"not known":         {},
		"new":               {server: 365 * day, client: 365 * day},
		"more than 30 days": {server: 30*day + time.Second, client: 73 * day},
		"30 days": {
			server: 30 * day, client: 73 * day, want: "API server expires in 30 days, on 2026-03-31.",
		},
		"hours": {
			server: 5 * time.Hour, client: 73 * day, want: "API server expires in 0 days, on 2026-03-01.",
		},
		"the client's expires first": {
			server: 73 * day, client: 12 * day, want: "gardenlet for the API server expires in 12 days",
		},
		"only the client's is known":       {client: 12 * day, want: "gardenlet for"},
		"the client's is not known":        {server: 12 * day, want: "API server"},
		"both, the server's expires first": {server: 11 * day, client: 12 * day, want: "API server expires in 11 days"},
	} {
		t.Run(name, func(t *testing.T) {
			o := healthyShoot()
			if tc.server != 0 {
				o.ServerUntil = now.Add(tc.server)
			}
			if tc.client != 0 {
				o.ClientUntil = now.Add(tc.client)
			}
			f := apiServer(o)
			warned := f.Reason == reasonCertificateExpires && strings.Contains(f.Message, "The certificate of the "+tc.want)
			if f.Status != "True" || warned != (tc.want != "") {
				t.Errorf("finding = %+v, want True and %q", f, tc.want)
			}
		})
	}
}
