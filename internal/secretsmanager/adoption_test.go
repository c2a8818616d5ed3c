package secretsmanager

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"hortus.dev/hortus/internal/pki"
)

var testKey = EncryptionKey{Name: "enc"}

// options for a status with that phase and initiation.
func keepOld(initiated time.Time) Options {
	return Options{Persist: true, KeepOld: true, RotationInitiated: initiated}
}

func completed(initiated time.Time) Options {
	o := keepOld(initiated)
	o.IgnoreOld = true
	return o
}

// handedOut are the names of the Secrets in use.
func handedOut(m *Manager, name string) []string {
	current, err := m.Get(name)
	if err != nil {
		return nil
	}
	names := []string{current.Name}
	for _, s := range m.Predecessors(name) {
		names = append(names, s.Name)
	}
	return names
}

// A rotation was initiated at rotated, after an earlier one at before. Then the record is restored to an earlier state.
func TestLaterRotationIsAdopted(t *testing.T) {
	before, rotated := start.Add(time.Hour), start.Add(2*time.Hour)
	for name, tc := range map[string]struct {
		first, second Options // Before the loss of the record; the second is left out if it is empty.
		lost          Options
		old           bool // The predecessor is in use.
	}{
		"preparing, back to the previous rotation":  {completed(before), keepOld(rotated), completed(before), true},
		"preparing, back to never rotated":          {completed(before), keepOld(rotated), keepOld(time.Time{}), true},
		"the first one, back to never rotated":      {keepOld(time.Time{}), keepOld(rotated), keepOld(time.Time{}), true},
		"completed, back to prepared":               {completed(before), completed(rotated), keepOld(rotated), false},
		"completed, back to the previous rotation":  {completed(before), completed(rotated), completed(before), false},
		"completed, back to preparing the previous": {completed(before), completed(rotated), keepOld(before), false},
		"completed, back to never rotated":          {completed(before), completed(rotated), keepOld(time.Time{}), false},
		"completed, back to completing":             {completed(before), completed(rotated), completed(rotated), false},
		"preparing, and to be completed":            {completed(before), keepOld(rotated), completed(rotated), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := func(o Options) *Manager {
				m := w.manager()
				w.generate(m, testCA, o)
				w.generate(m, testKey, o)
				w.generate(m, testServer, Options{})
				w.generate(m, testClient, Options{})
				if err := m.Cleanup(t.Context()); err != nil {
					t.Fatal(err)
				}
				return m
			}
			m := run(tc.first)
			oldCA, oldKey := handedOut(m, "ca")[0], handedOut(m, "enc")[0]
			m = run(tc.second)
			ca, key := handedOut(m, "ca")[0], handedOut(m, "enc")[0]
			for range 2 { // The second time after the clean-up of the first.
				m = run(tc.lost)
				wantCA, wantKey := []string{ca}, []string{key}
				if tc.old {
					wantCA, wantKey = append(wantCA, oldCA), append(wantKey, oldKey)
				}
				if got := handedOut(m, "ca"); !slices.Equal(got, wantCA) {
					t.Errorf("CAs = %v, want %v", got, wantCA)
				}
				if got := handedOut(m, "enc"); !slices.Equal(got, wantKey) {
					t.Errorf("encryption keys = %v, want %v", got, wantKey)
				}
			}
			want := Rotation{Initiated: rotated, Unfinished: tc.old}
			got := w.manager().Rotation("ca", "enc")
			if !got.Initiated.Equal(want.Initiated) || got.Unfinished != want.Unfinished {
				t.Errorf("Rotation() = %+v, want %+v", got, want)
			}
		})
	}
}

// A rotation that begins although the previous one was not completed drops nothing.
func TestRotationAfterAnUnfinishedOneKeepsAll(t *testing.T) {
	w := newWorld(t)
	var want []string
	for hour := range 3 {
		m := w.manager()
		var initiated time.Time
		if hour > 0 {
			initiated = start.Add(time.Duration(hour) * time.Hour)
		}
		w.generate(m, testKey, keepOld(initiated))
		w.generate(m, RSAKey{Name: "ssh", SSH: true}, keepOld(initiated))
		want = append([]string{handedOut(m, "enc")[0]}, want...)
		if got := handedOut(m, "enc"); !slices.Equal(got, want) {
			t.Errorf("keys after %d rotations = %v, want %v", hour, got, want)
		}
		if got := handedOut(m, "ssh"); len(got) > 2 {
			t.Errorf("key pairs for SSH = %v, want only the last two", got)
		}
		if err := m.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCleanupKeepsWhatNobodyKnowsASuccessorOf(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	ca, key := w.generate(m, testCA, keepOld(time.Time{})), w.generate(m, testKey, keepOld(time.Time{}))
	tokens := w.generate(m, RSAKey{Name: "tokens"}, keepOld(time.Time{}))
	w.generate(m, testServer, Options{})
	w.generate(m, BasicAuth{Name: "users"}, Options{})
	if err := w.manager().Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{ca.Name, key.Name, tokens.Name}
	slices.Sort(want)
	if got := w.names(); !slices.Equal(got, want) {
		t.Errorf("Secrets = %v, want %v", got, want)
	}
}

// The names of keys that cannot be regenerated must never depend on other inputs than now: with another name the key in
// use would not be found.
func TestNamesOfIrreplaceableSecretsStay(t *testing.T) {
	for _, tc := range []struct {
		config Config
		want   string
	}{
		{CA{Name: "ca", CommonName: "kubernetes"}, "ca-e8b59836-e9552"},
		{EncryptionKey{Name: "kube-apiserver-etcd-encryption-key"}, "kube-apiserver-etcd-encryption-key-5f263b10-e9552"},
		{RSAKey{Name: "service-account-key"}, "service-account-key-05e770a5-e9552"},
	} {
		if got := secretName(tc.config, "", start); got != tc.want {
			t.Errorf("secretName(%+v) = %s, want %s", tc.config, got, tc.want)
		}
	}
}

// record is the caller's record of a rotation, which it may lose.
type record struct {
	initiated time.Time
	phase     string
}

const (
	preparing  = "Preparing"
	prepared   = "Prepared"
	completing = "Completing"
	complete   = "Completed"
)

func (r record) options() Options {
	o := keepOld(r.initiated)
	o.IgnoreOld = r.phase == completing || r.phase == complete
	return o
}

// history is a random sequence of rotations in one namespace, with its invariants.
type history struct {
	*world
	random  *rand.Rand
	log     []string
	record  record
	records []record // All records so far; the record may be restored to each.
	// The initiations of rotations whose completion was requested at any time.
	asked []time.Time
	// counted are the Secrets that were ever in use, by name.
	counted map[string]*corev1.Secret
	// bundles and servers that may be in use: of the last reconciliation that was rolled out, and of all later ones.
	bundles, servers []*corev1.Secret
	// writes until the process stops.
	left int
}

var errStopped = errors.New("stopped")

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		world: newWorld(t), random: rand.New(rand.NewPCG(seed, 0)), counted: map[string]*corev1.Secret{},
		records: []record{{}},
	}
	stop := func(err error) error {
		if h.left--; h.left < 0 && err == nil {
			return errStopped
		}
		return err
	}
	h.c = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if h.left < 0 {
				return errStopped
			}
			return stop(c.Create(ctx, o, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if h.left < 0 {
				return errStopped
			}
			return stop(c.Delete(ctx, o, opts...))
		},
	}).Build()
	return h
}

func (h *history) set(r record) {
	h.record = r
	h.records = append(h.records, r)
}

func (h *history) errorf(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf(format+"\nhistory: %v", append(args, h.log)...)
}

// mayGo: the completion of a rotation that is later than the Secret's was requested.
func (h *history) mayGo(s *corev1.Secret) bool {
	return slices.ContainsFunc(h.asked, func(a time.Time) bool { return a.After(unixOf(s, LabelRotationInitiation)) })
}

func (h *history) step() {
	h.clock.SetTime(h.clock.Now().Add(time.Duration(1+h.random.IntN(600)) * time.Second))
	switch n := h.random.IntN(10); {
	case n < 2 && (h.record.phase == "" || h.record.phase == complete):
		h.log = append(h.log, "start")
		h.set(record{h.clock.Now(), preparing})
	case n < 4 && h.record.phase == prepared:
		h.log = append(h.log, "complete")
		h.asked = append(h.asked, h.record.initiated)
		h.set(record{h.record.initiated, completing})
	case n == 4:
		i := h.random.IntN(len(h.records))
		h.record = h.records[i]
		h.log = append(h.log, fmt.Sprintf("restore %s %s", h.record.phase, unixLabel(h.record.initiated)))
	default:
		h.left = 1 << 30
		if h.random.IntN(2) == 0 {
			h.left = h.random.IntN(8)
		}
		h.log = append(h.log, fmt.Sprintf("reconcile with %d writes", h.left))
		if err := h.reconcile(); err != nil && !errors.Is(err, errStopped) {
			h.errorf("reconcile: %v", err)
		}
	}
}

func (h *history) reconcile() error {
	m := h.manager()
	for _, c := range []Config{testCA, testKey} {
		if _, err := m.Generate(h.t.Context(), c, h.record.options()); err != nil {
			return err
		}
		h.checkHandedOut(m, c.configName())
	}
	bundle, err := m.Bundle("ca")
	if err != nil {
		return err
	}
	for _, s := range h.servers {
		if !trusts(h.t, bundle, s) && !h.mayGo(h.signerOf(s)) {
			h.errorf("a client with the new bundle does not trust server certificate %s, which is in use", s.Name)
		}
	}
	h.bundles = append(h.bundles, bundle)
	server, err := m.Generate(h.t.Context(), testServer, Options{})
	if err != nil {
		return err
	}
	for _, b := range h.bundles {
		if !trusts(h.t, b, server) {
			h.errorf("a client with bundle %s does not trust the new server certificate", b.Name)
		}
	}
	leaf, err := m.Generate(h.t.Context(), testClient, Options{})
	if err != nil {
		return err
	}
	if !trusts(h.t, bundle, leaf) {
		h.errorf("servers do not trust the client certificate")
	}
	// A process may stop here, or before anything is rolled out.
	h.servers = append(h.servers, server)
	if h.left < 0 || h.random.IntN(4) == 0 {
		return errStopped
	}
	// Everything is rolled out, so the clean-up begins.
	h.bundles, h.servers = []*corev1.Secret{bundle}, []*corev1.Secret{server}
	err = m.Cleanup(h.t.Context())
	h.checkNothingIsLost()
	if err != nil {
		return err
	}
	switch h.record.phase {
	case preparing:
		h.set(record{h.record.initiated, prepared})
	case completing:
		h.set(record{h.record.initiated, complete})
	}
	return nil
}

func (h *history) checkHandedOut(m *Manager, name string) {
	h.t.Helper()
	names := handedOut(m, name)
	for other, secret := range h.counted {
		if secret.Labels[LabelName] == name && !slices.Contains(names, other) && !h.mayGo(secret) {
			h.errorf("%s is missing in %v although no rotation was completed since", other, names)
		}
	}
	for _, n := range names {
		h.counted[n] = m.existing[n]
	}
}

func (h *history) checkNothingIsLost() {
	h.t.Helper()
	names := h.names()
	for name, secret := range h.counted {
		if !slices.Contains(names, name) && !h.mayGo(secret) {
			h.errorf("Secret %s was deleted although no rotation was completed since", name)
		}
	}
}

// signerOf is the CA that has signed a certificate.
func (h *history) signerOf(leaf *corev1.Secret) *corev1.Secret {
	h.t.Helper()
	for _, s := range h.counted {
		if s.Labels[LabelName] == "ca" && verify(h.t, leaf, s) {
			return s
		}
	}
	h.errorf("no CA that was in use has signed %s", leaf.Name)
	return nil
}

// trusts reports whether a peer with the bundle accepts the certificate.
func trusts(t *testing.T, bundle, leaf *corev1.Secret) bool {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle.Data[DataBundle])
	cert, err := pki.ParseCert(leaf.Data[DataCert])
	if err != nil {
		t.Fatal(err)
	}
	_, err = cert.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: cert.NotBefore.Add(time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil
}

// For all sequences of rotations, interruptions and lost records, credentials in use are never dropped before the
// completion was requested, and clients and servers always trust each other.
func TestRandomHistories(t *testing.T) {
	const histories, steps = 60, 40
	for seed := range uint64(histories) {
		h := newHistory(t, seed)
		for range steps {
			h.step()
		}
	}
}
