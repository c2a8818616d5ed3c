package certificates

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hortus.dev/hortus/internal/golden"
)

const head = `<!-- Made by internal/certificates/page_test.go with -update. -->
# Certificates

Every certificate and signing key: who signs it, how long it is valid, who replaces it and when, and what that restarts. Tests compare
the tables of control planes and of the landscape with what is issued. **By hand** means that somebody has to act before the end.

- **CAs of a Shoot** are rotated by its owner (` + "`rotate-ca-start`, `rotate-ca-complete`" + `). During the last year the constraint
  ` + "`CACertificateValiditiesAcceptable`" + ` is False.
- **A Shoot that has failed** is tried again after 30 days. When it fails, at least 73 days are left, 20 % of a year, so two more
  attempts begin before the first certificate expires. Etcd, API server and controllers get theirs also if the cloud fails again.
  Only extensions that the API server waits for (lifecycle ` + "`BeforeKubeAPIServer`" + `) can keep it from them: **by hand**, its owner resolves
  what the last operation reports.
- **A Shoot that is not reconciled** gets no new certificates: one with ` + "`shoot.gardener.cloud/ignore`" + ` where gardenlets respect it,
  one that waits for somebody to confirm its older specification or a new control plane, one whose deletion or move has failed, all during
  an emergency stop of their seed or without its gardenlet. After at least 73 days its control plane stops working.
- **30 days before** the certificate of the API server or of the gardenlet as its client expires, the condition ` + "`APIServerAvailable`" + `
  says so, with the reason ` + "`CertificateExpiresSoon`" + `, and every day an event, unless the Shoot has never been
  created.
`

// parts are the sections of the page.
var parts = []struct {
	title string
	rows  []Row
}{
	{"Control plane of a Shoot: Secrets of its namespace", ControlPlane},
	{"Rest of a Shoot", Shoot},
	{"Garden and gardenlets", Garden},
	{"Landscape: each of its clusters, `pki.json`", LandscapeCluster},
	{"Landscape: further nodes", LandscapeWorker},
	{"Landscape: garden, `garden-pki.json`", LandscapeGarden},
	{"Landscape: the rest", LandscapeOther},
}

// TestPage checks the page of all certificates, and updates it on request.
func TestPage(t *testing.T) {
	var out strings.Builder
	out.WriteString(head)
	for _, part := range parts {
		fmt.Fprintf(&out, "\n## %s\n\n| name | for | signed by | life | replaced by, when | what that restarts |\n",
			part.title)
		out.WriteString("|---|---|---|---|---|---|\n")
		for _, r := range part.rows {
			renewal := r.Renewal.Text
			if r.Renewal.ByHand {
				renewal = "**By hand**: " + renewal
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s |\n", names(r.Names), r.For, orDash(r.SignedBy), life(r), renewal,
				r.TakenUp)
		}
	}
	golden.Bytes(t, "../../../docs/certificates.md", []byte(out.String()))
}

func names(list []string) string {
	var out []string
	for _, name := range list {
		if !strings.ContainsAny(name, " `") {
			name = "`" + name + "`"
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func life(r Row) string {
	switch {
	case r.LifeText != "":
		return r.LifeText
	case r.Life == 0:
		return "unlimited"
	case r.Life == Year:
		return "1 year"
	}
	if r.Life < Year {
		return fmt.Sprintf("%d days", r.Life/Day)
	}
	return fmt.Sprintf("%d years", r.Life/Year)
}

func TestCheck(t *testing.T) {
	rows := []Row{{Names: []string{"a", "b"}, Life: Year}}
	for name, tc := range map[string]struct {
		issued map[string]time.Duration
		errors int
	}{
		"the same":     {map[string]time.Duration{"a": Year, "b": Year}, 0},
		"another life": {map[string]time.Duration{"a": Day, "b": Year}, 1},
		"one more":     {map[string]time.Duration{"a": Year, "b": Year, "c": Year}, 1},
		"one less":     {map[string]time.Duration{"a": Year}, 1},
	} {
		counted := &counter{}
		Check(counted, tc.issued, rows)
		if counted.errors != tc.errors {
			t.Errorf("%s: %d errors, want %d", name, counted.errors, tc.errors)
		}
	}
}

type counter struct{ errors int }

func (*counter) Helper()                 {}
func (c *counter) Errorf(string, ...any) { c.errors++ }
