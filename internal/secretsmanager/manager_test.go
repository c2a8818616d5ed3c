package secretsmanager

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"hortus.dev/hortus/internal/pki"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type world struct {
	t     *testing.T
	c     client.Client
	clock *testclock.FakePassiveClock
}

func newWorld(t *testing.T) *world {
	return &world{t: t, c: fake.NewClientBuilder().Build(), clock: testclock.NewFakePassiveClock(start)}
}

func (w *world) manager() *Manager {
	w.t.Helper()
	m, err := New(w.t.Context(), w.c, w.clock, "shoot--p--s", "gardenlet")
	if err != nil {
		w.t.Fatal(err)
	}
	m.RSABits = TestRSABits
	return m
}

func TestRSAKeysHaveTheDefaultSize(t *testing.T) {
	w := newWorld(t)
	m, err := New(t.Context(), w.c, w.clock, "shoot--p--s", "gardenlet")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(w.generate(m, RSAKey{Name: "tokens"}, Options{}).Data[DataPrivateRSA])
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if key.N.BitLen() != 3072 {
		t.Errorf("the key has %d bits, want 3072", key.N.BitLen())
	}
}

func (w *world) generate(m *Manager, c Config, o Options) *corev1.Secret {
	w.t.Helper()
	s, err := m.Generate(w.t.Context(), c, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) names() []string {
	w.t.Helper()
	list := &corev1.SecretList{}
	if err := w.c.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names
}

func verify(t *testing.T, leaf *corev1.Secret, ca *corev1.Secret) bool {
	t.Helper()
	l, err := pki.ParseCert(leaf.Data[DataCert])
	if err != nil {
		t.Fatal(err)
	}
	c, err := pki.ParseCert(ca.Data[DataCACert])
	if err != nil {
		t.Fatal(err)
	}
	return l.CheckSignatureFrom(c) == nil
}

var (
	testCA     = CA{Name: "ca", CommonName: "kubernetes"}
	testServer = Certificate{Name: "server", CommonName: "s", DNSNames: []string{"s"}, Usage: pki.Server, SignedBy: "ca"}
	testClient = Certificate{
		Name: "client", CommonName: "c", Usage: pki.Client, SignedBy: "ca", Validity: 100 * 24 * time.Hour,
	}
)

func TestSameInputsFindTheSameSecret(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	ca, server := w.generate(m, testCA, Options{Persist: true, KeepOld: true}), w.generate(m, testServer, Options{})
	if ca.Name != "ca" {
		t.Errorf("name of a CA that was never rotated = %q, want ca", ca.Name)
	}
	if ca.Labels[LabelPersist] != "true" || ca.Immutable == nil || !*ca.Immutable || server.Labels[LabelCAChecksum] == "" {
		t.Errorf("labels of %s are %v, of %s %v", ca.Name, ca.Labels, server.Name, server.Labels)
	}
	before := w.names()
	m = w.manager()
	again := w.generate(m, testCA, Options{Persist: true, KeepOld: true})
	w.generate(m, testServer, Options{})
	if diff := cmp.Diff(before, w.names()); diff != "" {
		t.Errorf("a second run changed Secrets (-want +got):\n%s", diff)
	}
	if !bytes.Equal(ca.Data[DataCAKey], again.Data[DataCAKey]) {
		t.Error("a second run generated a new key")
	}
}

func TestChangedConfigMakesANewSecretAndCleanupDropsTheOld(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	w.generate(m, testCA, Options{})
	first := w.generate(m, testServer, Options{})
	m = w.manager()
	w.generate(m, testCA, Options{})
	changed := testServer
	changed.DNSNames = []string{"s", "t"}
	second := w.generate(m, changed, Options{})
	if first.Name == second.Name {
		t.Fatalf("both are named %q", first.Name)
	}
	if err := m.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	bundle, err := m.Bundle("ca")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ca", bundle.Name, second.Name}, w.names()); diff != "" {
		t.Errorf("Secrets after clean-up mismatch (-want +got):\n%s", diff)
	}
}

func TestRotationOfACAKeepsBothSidesTrustingEachOther(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	oldCA := w.generate(m, testCA, Options{KeepOld: true})
	w.generate(m, testServer, Options{})

	w.clock.SetTime(start.Add(time.Hour))
	preparing := Options{KeepOld: true, RotationInitiated: w.clock.Now()}
	m = w.manager()
	newCA := w.generate(m, testCA, preparing)
	if newCA.Name == oldCA.Name {
		t.Fatal("the rotation generated no new CA")
	}
	if !verify(t, w.generate(m, testServer, Options{}), oldCA) {
		t.Error("server certificates must stay signed by the old CA while it exists")
	}
	if !verify(t, w.generate(m, testClient, Options{}), newCA) {
		t.Error("client certificates must be signed by the current CA")
	}
	careful := testClient
	careful.Name, careful.ForOldPeers = "careful", true
	if !verify(t, w.generate(m, careful, Options{}), oldCA) {
		t.Error("certificates for servers that may not know the new CA must be signed by the old one")
	}
	bundle, err := m.Bundle("ca")
	if err != nil {
		t.Fatal(err)
	}
	for _, ca := range []*corev1.Secret{oldCA, newCA} {
		if !bytes.Contains(bundle.Data[DataBundle], ca.Data[DataCACert]) {
			t.Errorf("the bundle lacks the certificate of %s", ca.Name)
		}
	}
	if err := m.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}

	completing := preparing
	completing.IgnoreOld = true
	m = w.manager()
	if got := w.generate(m, testCA, completing); got.Name != newCA.Name {
		t.Errorf("completing uses CA %q, want %q", got.Name, newCA.Name)
	}
	if !verify(t, w.generate(m, testServer, Options{}), newCA) {
		t.Error("after completion server certificates must be signed by the new CA")
	}
	if !verify(t, w.generate(m, careful, Options{}), newCA) {
		t.Error("after completion all certificates must be signed by the new CA")
	}
	if m.Old("ca") != nil {
		t.Error("the old CA is still in use after completion")
	}
	if err := m.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range w.names() {
		if name == oldCA.Name {
			t.Errorf("Secret %s survived the clean-up", name)
		}
	}
}

func TestCertificatesAreRenewedBeforeTheyEnd(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	w.generate(m, testCA, Options{})
	first := w.generate(m, testClient, Options{})
	at := func(days int) *corev1.Secret {
		w.clock.SetTime(start.Add(time.Duration(days) * 24 * time.Hour))
		m := w.manager()
		w.generate(m, testCA, Options{})
		return w.generate(m, testClient, Options{})
	}
	if got := at(79); got.Name != first.Name {
		t.Errorf("renewed after 79 of 100 days")
	}
	second := at(81)
	if second.Name == first.Name {
		t.Errorf("not renewed after 81 of 100 days")
	}
	if got := at(82); got.Name != second.Name {
		t.Errorf("renewed again a day later")
	}
}

func TestNeedsRenewal(t *testing.T) {
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		validity, age time.Duration
		want          bool
	}{
		"new":             {100 * day, 0, false},
		"at 80 percent":   {100 * day, 80 * day, false},
		"past 80 percent": {100 * day, 80*day + time.Second, true},
		"short-lived: ten days are not its whole lifetime": {8 * day, day, false},
		"fewer than ten days left":                         {30 * day, 21 * day, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsRenewal(start, start.Add(tc.validity), start.Add(tc.age)); got != tc.want {
				t.Errorf("needsRenewal() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestGenerateEveryKind(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	for _, tc := range []struct {
		config Config
		keys   []string
	}{
		{testCA, []string{"ca.crt", "ca.key"}},
		{testServer, []string{"ca.crt", "tls.crt", "tls.key"}},
		{RSAKey{Name: "service-account-key"}, []string{"id_rsa", "id_rsa.pub"}},
		{RSAKey{Name: "ssh-keypair", SSH: true}, []string{"id_rsa", "id_rsa.pub"}},
		{BasicAuth{Name: "users", UserName: "admin"}, []string{"password", "username"}},
		{EncryptionKey{Name: "enc"}, []string{"key", "secret"}},
	} {
		s := w.generate(m, tc.config, Options{})
		for _, k := range tc.keys {
			if len(s.Data[k]) == 0 {
				t.Errorf("%s: no data %q", s.Name, k)
			}
		}
		if len(s.Data) != len(tc.keys) {
			t.Errorf("%s has %d keys, want %v", s.Name, len(s.Data), tc.keys)
		}
	}
	if _, err := m.Generate(t.Context(), Certificate{Name: "x", SignedBy: "nobody", Usage: pki.Client},
		Options{}); err == nil {
		t.Error("a certificate was signed by a CA that does not exist")
	}
}
