package gardenlet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
	"hortus.dev/hortus/internal/gardenletchart"
	"hortus.dev/hortus/internal/pki"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: north, user: admin}}]
clusters: [{name: north, cluster: {%s}}]
users: [{name: admin, user: {%s}}]
`

// TestKubeconfigsThatAreRefused: a kubeconfig makes the controller manager neither run programs nor read its own files.
func TestKubeconfigsThatAreRefused(t *testing.T) {
	const server, token = "server: https://north.example.com", "token: t"
	for name, tc := range map[string]struct{ cluster, user, problem string }{
		"a program": {server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: id, interactiveMode: Never}",
			"users[admin].user.exec: forbidden"},
		"a plugin":                {server, "auth-provider: {name: oidc}", "users[admin].user.auth-provider: forbidden"},
		"a file with a token":     {server, "tokenFile: /t", "users[admin].user.tokenFile: forbidden"},
		"a file with a key":       {server, "client-key: /k", "users[admin].user.client-key: forbidden"},
		"a file with a bundle":    {server + ", certificate-authority: /ca", token, "certificate-authority: forbidden"},
		"any certificate":         {server + ", insecure-skip-tls-verify: true", token, "skip-tls-verify: forbidden"},
		"no TLS":                  {"server: http://north.example.com", token, "must be an https URL"},
		"everything at once, 1/2": {"server: north", "tokenFile: /t", "must be an https URL"},
		"everything at once, 2/2": {"server: north", "tokenFile: /t", "tokenFile: forbidden"},
	} {
		_, err := Connect(fmt.Appendf(nil, kubeconfig, tc.cluster, tc.user))
		if err == nil || !strings.Contains(err.Error(), tc.problem) || !errors.As(err, new(invalid)) {
			t.Errorf("%s: %v, want %q", name, err, tc.problem)
		}
	}
	if _, err := Connect([]byte("no kubeconfig")); !errors.As(err, new(invalid)) {
		t.Errorf("text that is no kubeconfig: %v", err)
	}
	if _, err := Connect(fmt.Appendf(nil, kubeconfig, server, token)); err != nil {
		t.Errorf("a kubeconfig with a token: %v", err)
	}
}

func TestDue(t *testing.T) {
	ref := &corev1.LocalObjectReference{Name: "north"}
	force := map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationForceRedeploy}
	for name, tc := range map[string]struct {
		ref                 *corev1.LocalObjectReference
		annotations         map[string]string
		deleted, registered bool
		want                bool
	}{
		"the first one":                        {ref: ref, want: true},
		"no cluster is named":                  {},
		"the Seed is registered":               {ref: ref, registered: true},
		"another one is requested":             {ref: ref, registered: true, annotations: force, want: true},
		"another one, and no cluster is named": {registered: true, annotations: force},
		"the Gardenlet is being deleted":       {ref: ref, deleted: true, annotations: force},
	} {
		g := &seedmanagementv1alpha1.Gardenlet{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
		g.Spec.KubeconfigSecretRef = tc.ref
		if tc.deleted {
			g.DeletionTimestamp = &metav1.Time{}
		}
		if got := due(g, tc.registered); got != tc.want {
			t.Errorf("%s: due is %t", name, got)
		}
	}
}

func TestHowTheGardenletReachesTheGarden(t *testing.T) {
	of := func(connection string) *seedmanagementv1alpha1.Gardenlet {
		g := &seedmanagementv1alpha1.Gardenlet{ObjectMeta: metav1.ObjectMeta{Name: "north"}}
		g.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"gardenClientConnection":{` + connection + `}}`)}
		return g
	}
	_, err := gardenOf(of(""), nil)
	const want = "spec.config.gardenClientConnection.gardenClusterAddress: required value"
	if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(invalid)) {
		t.Errorf("without an address: %v, want %q", err, want)
	}
	const address = `"gardenClusterAddress":"https://garden.example.com"`
	for connection, bundle := range map[string]string{
		address: "of the garden", address + `,"gardenClusterCACert":"b3RoZXI="`: "other",
	} {
		k, err := gardenOf(of(connection), []byte("of the garden"))
		if err != nil || k.Server != "https://garden.example.com" || string(k.CAPEM) != bundle {
			t.Errorf("%s: %+v, %v", connection, k, err)
		}
	}
}

// TestClusterOfAnotherSeedIsRefused: its gardenlet is recognized by its certificate, in either of the Secrets in which
// a gardenlet has one, and nothing is changed.
func TestClusterOfAnotherSeedIsRefused(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ca, err := pki.NewCA("ca", clock)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: corev1beta1.SeedUserPrefix + "south", Usage: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.Kubeconfig{Server: "https://garden.example.com", Client: pair}.Render()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gardenlet-kubeconfig-garden", "gardenlet-kubeconfig"} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name}, Data: map[string][]byte{"kubeconfig": text},
		}
		cluster := Cluster{Client: fake.NewClientBuilder().WithObjects(secret).Build()}
		present, err := gardenletchart.AccessIn(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{Clock: clock}
		joined, err := r.joined(t.Context(), "north", cluster, present)
		if joined || err == nil || !strings.Contains(err.Error(), `is the Seed "south" already`) {
			t.Errorf("with Secret %s: joined %t, error %v", name, joined, err)
		}
		if joined, err := r.joined(t.Context(), "south", cluster, present); !joined || err != nil {
			t.Errorf("with Secret %s, the gardenlet of the Seed itself: joined %t, error %v", name, joined, err)
		}
	}
}

// TestTokens: a gardenlet keeps its token as long as it can use it, or is about to store the certificate that it has
// got with it.
func TestTokens(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	token := func(seed string, validity time.Duration, usedFor time.Duration) corev1.Secret {
		_, secret := bootstraptoken.New(seed, now.Add(validity))
		if usedFor >= 0 {
			bootstraptoken.Claim(secret, "request", now.Add(-usedFor))
		}
		return *secret
	}
	const unused = -1
	for name, tc := range map[string]struct {
		secret    corev1.Secret
		own       bool // It is in the kubeconfig of the gardenlet.
		keep, use bool
	}{
		"a new one":                {secret: token("north", time.Hour, unused), use: true},
		"its own":                  {secret: token("north", time.Hour, unused), own: true, keep: true},
		"one that expires soon":    {secret: token("north", time.Minute, unused), own: true},
		"of another Seed":          {secret: token("south", time.Hour, unused)},
		"just used":                {secret: token("north", time.Hour, time.Minute), own: true, keep: true},
		"used some minutes ago":    {secret: token("north", time.Hour, 3*time.Minute), own: true},
		"just used, and not by it": {secret: token("north", time.Hour, time.Minute)},
	} {
		kubeconfig := "token: another"
		if tc.own {
			kubeconfig = "token: " + bootstraptoken.Text(&tc.secret)
		}
		text, keep := tokenFor("north", kubeconfig, []corev1.Secret{tc.secret}, now)
		if keep != tc.keep || (text == bootstraptoken.Text(&tc.secret)) != tc.use {
			t.Errorf("%s: token %q, kept: %t", name, text, keep)
		}
	}
}
