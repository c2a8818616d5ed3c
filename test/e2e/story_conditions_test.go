//go:build landscape

package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/keyutil"

	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/secretsmanager"
)

// TestConditionsOfAControlPlane breaks a Shoot in three ways at once: a quota in the seed keeps its controller manager
// from starting, a definition depends on its conversion webhook, and a CA expires in 100 days. Conditions, constraints
// and label report each of them until it is mended: by the operator, by the owner, and by a rotation.
func TestConditionsOfAControlPlane(t *testing.T) {
	story(t, firstSeed)
	const (
		name, namespace, seedName = "ailing", "shoot--dev--ailing", "local-1"
		expiring, converting      = "CACertificateValiditiesAcceptable", "CRDsWithProblematicConversionWebhooks"
		definition                = "hats.converted.example.com"
		left                      = 100 * 24 * time.Hour
	)
	garden, seed := kubeconfigOf("garden"), adminOf(seedName)
	newShoot(t, "shoot-workerless.yaml", name)
	kubeconfig := shootKubeconfig(t, name)
	before := awaitShoot(t, name, "a Shoot with nothing to report", func(o *unstructured.Unstructured) bool {
		return wellWithoutNodes(o) && statusLabel(o) == "healthy"
	})
	for _, constraint := range []string{expiring, converting} {
		if c := conditionOf(before, "constraints", constraint); c != nil {
			t.Errorf("a new Shoot has the constraint %v", c)
		}
	}

	if out, err := applyText(t, seed, strings.Replace(fullQuota, "NAMESPACE", namespace, 1)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { kubectl(t, seed, "-n", namespace, "delete", "resourcequota", "full", "--ignore-not-found") })
	kubectl(t, seed, "-n", namespace, "wait", "resourcequota/full", "--for=jsonpath={.status.hard.pods}=0",
		withPatience)
	kubectl(t, seed, "-n", namespace, "delete", "pods", "-l", "app=kube-controller-manager", "--wait=false")
	storeAs(t, kubeconfig, definition, "v1")
	storeAs(t, kubeconfig, definition, "v2")
	end := shortenCA(t, seed, namespace, "ca", left)

	step(t, "conditions and constraints name what is wrong", func(t *testing.T) {
		bad := awaitShoot(t, name, "a condition and two constraints to be False", func(o *unstructured.Unstructured) bool {
			return conditionOf(o, "conditions", "ControlPlaneHealthy")["status"] == "False" &&
				conditionOf(o, "constraints", expiring)["status"] == "False" &&
				conditionOf(o, "constraints", converting)["status"] == "False" && statusLabel(o) == "unhealthy"
		})
		checkConditions(t, bad, []wantedCondition{
			{"conditions", "APIServerAvailable", "True", "HealthzRequestSucceeded", ""},
			{"conditions", "ControlPlaneHealthy", "False", "DeploymentUnhealthy", "kube-controller-manager"},
			{"constraints", expiring, "False", "ExpiringCACertificates",
				`"ca" (expiring at ` + end.UTC().Format(time.RFC3339) + ")."},
			{"constraints", converting, "False", "CRDsWithProblematicConversionWebhooks", definition},
			{"constraints", "HibernationPossible", "True", "NoProblematicWebhooks", ""},
		})
		out := hortus(t, "explain", name, "-n", projectNS, "-o", "json", "--seed-kubeconfig", seed)
		for _, want := range []string{
			`"Deployment"`, `"kube-controller-manager"`, "Pods cannot be created: ", "exceeded quota: full", expiring,
			"rotate-ca-start", converting, "status.storedVersions",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("explain does not say %q:\n%s", want, out)
			}
		}
	})
	step(t, "a reconciliation waits for what is wrong", func(t *testing.T) {
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation=reconcile")
		awaitShoot(t, name, "the label progressing", func(o *unstructured.Unstructured) bool {
			return lastOperation(o, "state") == "Processing" && statusLabel(o) == "progressing" &&
				conditionOf(o, "conditions", "ControlPlaneHealthy")["status"] == "Progressing"
		})
	})
	step(t, "operator and owner mend what is theirs", func(t *testing.T) {
		kubectl(t, seed, "-n", namespace, "delete", "resourcequota", "full")
		// The reconciliation replaces the API server, too, with a certificate signed by the CA that expires earlier.
		// The ReplicaSet controller retries failed creations of pods at growing intervals, but at once after a change.
		kubectl(t, seed, "-n", namespace, "annotate", "replicasets", "--all", "example.com/try=again")
		kubectl(t, kubeconfig, "patch", "crd", definition, "--subresource=status", "--type=merge", "-p",
			`{"status":{"storedVersions":["v2"]}}`)
		healed := awaitShoot(t, name, "health, and one constraint less", func(o *unstructured.Unstructured) bool {
			return succeeded(o) && wellWithoutNodes(o) && statusLabel(o) == "healthy" &&
				conditionOf(o, "constraints", converting) == nil
		})
		if c := conditionOf(healed, "constraints", expiring); c["status"] != "False" {
			t.Errorf("the CA has not been rotated, and its constraint is %v", c)
		}
	})
	step(t, "a rotation replaces the CA that expires", func(t *testing.T) {
		for _, phase := range []struct{ operation, reached string }{
			{"rotate-ca-start", "Prepared"}, {"rotate-ca-complete", "Completed"},
		} {
			kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation="+phase.operation)
			awaitShoot(t, name, "phase "+phase.reached, func(o *unstructured.Unstructured) bool {
				got, _, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", "certificateAuthorities",
					"phase")
				return got == phase.reached && succeeded(o)
			})
		}
		awaitShoot(t, name, "no constraint about CAs", func(o *unstructured.Unstructured) bool {
			return wellWithoutNodes(o) && conditionOf(o, "constraints", expiring) == nil
		})
		kubectl(t, shootKubeconfig(t, name), "get", "namespaces")
	})
}

// fullQuota lets no further pod start in a namespace.
const fullQuota = `apiVersion: v1
kind: ResourceQuota
metadata: {name: full, namespace: NAMESPACE}
spec: {hard: {pods: "0"}}
`

// wantedCondition is a condition or a constraint, with a part of its message.
type wantedCondition struct{ list, name, status, reason, text string }

func checkConditions(t *testing.T, shoot *unstructured.Unstructured, wanted []wantedCondition) {
	t.Helper()
	for _, want := range wanted {
		c := conditionOf(shoot, want.list, want.name)
		message, _ := c["message"].(string)
		if c["status"] != want.status || c["reason"] != want.reason || !strings.Contains(message, want.text) {
			t.Errorf("%s is %v, want %s because of %s with a message about %q", want.name, c, want.status, want.reason,
				want.text)
		}
		t.Logf("%s: %s", want.name, message)
	}
}

// statusLabel is the label that sums up the status of a Shoot.
func statusLabel(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	return o.GetLabels()["shoot.gardener.cloud/status"]
}

// storeAs applies the definition of testdata/two-versions.yaml with a storage version, and waits until the API server
// lists it among the versions of stored objects.
func storeAs(t *testing.T, kubeconfig, definition, version string) {
	t.Helper()
	manifest := strings.NewReplacer("IS_V1", strconv.FormatBool(version == "v1"),
		"IS_V2", strconv.FormatBool(version == "v2")).Replace(testdata(t, "two-versions.yaml"))
	if out, err := applyText(t, kubeconfig, manifest); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := kubectl(t, kubeconfig, "get", "crd", definition, "-o",
		"jsonpath={.status.storedVersions}"); !strings.Contains(out, version) {
		t.Fatalf("the definition has the stored versions %s, want %s among them", out, version)
	}
}

// shortenCA replaces the certificate of a CA of a Shoot with one for the same key that expires earlier, so that all
// that trust the CA still do. It returns the time at which the certificate expires.
func shortenCA(t *testing.T, seed, namespace, name string, left time.Duration) time.Time {
	t.Helper()
	var found corev1.SecretList
	out := kubectl(t, seed, "-n", namespace, "get", "secrets", "-o", "json", "-l",
		secretsmanager.LabelName+"="+name+","+secretsmanager.LabelPersist+"=true,!"+secretsmanager.LabelBundleFor)
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Items) != 1 {
		t.Fatalf("%d Secrets of CA %s, want 1", len(found.Items), name)
	}
	secret := &found.Items[0]
	certificate := expiringCertificate(t, secret.Data[secretsmanager.DataCACert], secret.Data[secretsmanager.DataCAKey],
		time.Now().Add(left))
	secret.Data[secretsmanager.DataCACert] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	secret.Labels[secretsmanager.LabelValidUntil] = strconv.FormatInt(certificate.NotAfter.Unix(), 10)
	secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	secret.ObjectMeta = metav1.ObjectMeta{
		Namespace: namespace, Name: secret.Name, Labels: secret.Labels, Annotations: secret.Annotations,
	}
	manifest, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, seed, "replace", "--force", "-f", file) // It is immutable.
	return certificate.NotAfter
}

// expiringCertificate returns the certificate of a CA with another end.
func expiringCertificate(t *testing.T, certPEM, keyPEM []byte, end time.Time) *x509.Certificate {
	t.Helper()
	template, err := pki.ParseCert(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	key := parsed.(crypto.Signer)
	template.SerialNumber = new(big.Int).Add(template.SerialNumber, big.NewInt(1))
	template.NotAfter = end.UTC().Truncate(time.Second)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
