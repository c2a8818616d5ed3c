package certificates

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulated are tests that advance a clock over certificates of the table. Each observes its rows with a Watch, which
// reports rows that were not in use.
var simulated = []struct {
	file, test string // Path from the root of the repository.
	rows       []Row
}{
	{"internal/gardenlet/shoot/steps/certificates_test.go", "TestCertificatesOverTime", ControlPlane},
	{"internal/gardenlet/shoot/steps/certificates_test.go", "TestCertificatesOfAFailedShoot", ControlPlane},
	{"internal/nodeagent/certificates_test.go", "TestCertificatesOverTime", Named(Shoot, "node agent")},
	{"internal/gardenlet/access/certificates_test.go", "TestCertificatesOverTime", Named(Garden, "gardenlet")},
	{
		"internal/webhook/certificate/keeper_test.go", "TestCertificatesOverTime",
		Named(Garden, "webhooks of the resource-manager, CA", "webhooks of the resource-manager"),
	},
	{
		"internal/webhook/certificate/keeper_test.go", "TestCertificatesOverTime",
		Named(LandscapeOther, "webhooks of provider-local, CA", "webhooks of provider-local"),
	},
	{
		"internal/controllermanager/gardencertificate/certificates_test.go", "TestCertificatesOverTime",
		Named(Garden, "hortus-certificates, CA", "hortus-certificates"),
	},
	{"local/landscape/certificates_test.go", "TestCertificatesOverTime", LandscapeCluster},
	{"local/landscape/certificates_test.go", "TestCertificatesOverTime", LandscapeWorker},
	{"local/landscape/certificates_test.go", "TestCertificatesOverTime", LandscapeGarden},
	{
		"local/landscape/certificates_test.go", "TestCertificatesOverTime",
		Named(LandscapeOther, "gardenlet, the first one"),
	},
	{
		"local/clouddaemon/certificates_test.go", "TestCertificatesOverTime",
		Named(LandscapeOther, "local cloud, CA", "local cloud, serving"),
	},
}

// notSimulated are the names of all others, with the reason.
var notSimulated = map[string]string{
	"kubelet, client":  "the kubelet's own code renews it; it is bound to the real clock",
	"kubelet, serving": "the kubelet's own code renews it; it is bound to the real clock",
	"kube-controller-manager, kube-scheduler, serving":    "made in memory at each start; client certificates bring that about",
	"`adminkubeconfig`, `viewerkubeconfig`":               "with the person who has requested it; nothing of the product uses it",
	"`hortus-apiserver`, `hortus-etcd`, and their CA":     "the operator makes and replaces them",
	"kube-apiserver of the garden, its etcd, its clients": "the operator makes and replaces them",
	"hortus-apiserver-encryption":                         "a key without an end",
}

// TestEveryRowIsSimulated: a test advances a clock over every row of the table, or there is a reason why none does.
func TestEveryRowIsSimulated(t *testing.T) {
	key := func(r Row) string { return r.Names[0] + ", for " + r.For }
	followed := map[string]bool{}
	for _, s := range simulated {
		content, err := os.ReadFile(filepath.Join("..", "..", s.file))
		if err != nil {
			t.Fatal(err)
		}
		for _, needed := range []string{"func " + s.test + "(t *testing.T)", "certificates.NewWatch("} {
			if !strings.Contains(string(content), needed) {
				t.Errorf("%s does not contain %q", s.file, needed)
			}
		}
		if len(s.rows) == 0 {
			t.Errorf("%s in %s observes no rows", s.test, s.file)
		}
		for _, row := range s.rows {
			followed[key(row)] = true
		}
	}
	known, names := map[string]bool{}, map[string]bool{}
	for _, part := range parts {
		for _, row := range part.rows {
			if known[key(row)] {
				t.Errorf("%s is there twice", key(row))
			}
			known[key(row)] = true
			for _, name := range row.Names {
				names[name] = true
				if reason := notSimulated[name]; followed[key(row)] == (reason != "") {
					t.Errorf("%s: simulated by a test: %t; the reason why not is %q", key(row), followed[key(row)], reason)
				}
			}
		}
	}
	for name := range notSimulated {
		if !names[name] {
			t.Errorf("%q is not in the table", name)
		}
	}
}
