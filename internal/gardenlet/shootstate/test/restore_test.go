package test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/test/env"
)

// persistent are configs as in a control plane.
var persistent = []secretsmanager.Config{
	secretsmanager.CA{Name: "ca", CommonName: "kubernetes"},
	secretsmanager.CA{Name: "ca-client", CommonName: "kubernetes-client"},
	secretsmanager.RSAKey{Name: "service-account-key"},
	secretsmanager.EncryptionKey{Name: "kube-apiserver-etcd-encryption-key"},
	secretsmanager.RSAKey{Name: "ssh-keypair", SSH: true},
}

var names = []string{"ca", "ca-client", "service-account-key", "kube-apiserver-etcd-encryption-key", "ssh-keypair"}

// generate generates the credentials of a control plane as one pass of its flow does.
func (w *world) generate(namespace string, o secretsmanager.Options) *secretsmanager.Manager {
	w.t.Helper()
	m, err := secretsmanager.New(w.ctx, w.Client, w.clock, namespace, "gardenlet")
	w.must(err)
	for _, c := range persistent {
		_, err := m.Generate(w.ctx, c, o)
		w.must(err)
	}
	for _, c := range []secretsmanager.Certificate{
		{Name: "server", CommonName: "server", Usage: pki.Server, SignedBy: "ca", DNSNames: []string{"s"}},
		{Name: "client", CommonName: "client", Usage: pki.Client, SignedBy: "ca-client", Validity: time.Hour},
	} {
		_, err := m.Generate(w.ctx, c, secretsmanager.Options{})
		w.must(err)
	}
	w.must(m.Cleanup(w.ctx))
	return m
}

// emptyNamespace is the control plane namespace on another seed.
func (w *world) emptyNamespace() string {
	w.t.Helper()
	name := env.Name("shoot--elsewhere--")
	w.must(w.Client.Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	return name
}

// In every phase of a rotation a Manager on another seed returns exactly the credentials of the previous one.
func TestRestoredSecretsAreAdopted(t *testing.T) {
	for name, phase := range map[string]struct{ rotated, completing bool }{
		"never rotated": {false, false}, "preparing": {true, false}, "completing": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := secretsmanager.Options{Persist: true, KeepOld: true}
			w.generate(w.namespace(), o)
			if phase.rotated {
				w.clock.Step(time.Hour)
				o.RotationInitiated = w.clock.Now()
				w.generate(w.namespace(), o)
			}
			o.IgnoreOld = phase.completing
			before := w.generate(w.namespace(), o)
			w.pass()

			saved, err := shootstate.Load(w.ctx, w.garden, w.shoot)
			w.must(err)
			elsewhere := w.emptyNamespace()
			for range 2 { // The second time everything exists.
				w.must(saved.CreateSecrets(w.ctx, w.Client, elsewhere))
			}
			w.clock.Step(time.Hour)
			restored := w.secrets(elsewhere)
			after := w.generate(elsewhere, o)
			for _, name := range names {
				old, err := before.Get(name)
				w.must(err)
				now, err := after.Get(name)
				w.must(err)
				if !slices.Contains(restored, now.Name) || now.Name != old.Name {
					t.Errorf("%s is %s, want the restored %s", name, now.Name, old.Name)
				}
				sameData(t, old, now)
				if now.Immutable == nil || !*now.Immutable {
					t.Errorf("Secret %s can be changed", now.Name)
				}
				olds, nows := before.Predecessors(name), after.Predecessors(name)
				if phase.rotated && !phase.completing != (len(olds) == 1) || len(olds) != len(nows) {
					t.Fatalf("%s has %d predecessors, had %d", name, len(nows), len(olds))
				}
				for i := range olds {
					sameData(t, olds[i], nows[i])
				}
			}
			for _, name := range []string{"ca", "ca-client", "service-account-key"} {
				old, err := before.Bundle(name)
				w.must(err)
				now, err := after.Bundle(name)
				w.must(err)
				sameData(t, old, now)
			}
			kept := slices.DeleteFunc(w.secrets(elsewhere), func(s string) bool { return !slices.Contains(restored, s) })
			if len(kept) != len(restored) {
				t.Errorf("of the restored Secrets %v only %v are left", restored, kept)
			}
			there := w.shoot.DeepCopy()
			there.Status.TechnicalID = elsewhere
			outcome, err := w.r.States.Save(w.ctx, there)
			w.must(err)
			if outcome.Written != 0 {
				t.Errorf("the other seed writes %d bytes although nothing has changed", outcome.Written)
			}
		})
	}
}

func sameData(t *testing.T, a, b *corev1.Secret) {
	t.Helper()
	if a.Name != b.Name || len(a.Data) != len(b.Data) {
		t.Errorf("Secret %s with %d keys is %s with %d keys now", a.Name, len(a.Data), b.Name, len(b.Data))
	}
	for key, value := range a.Data {
		if !bytes.Equal(value, b.Data[key]) {
			t.Errorf("%s of Secret %s has changed", key, a.Name)
		}
	}
}

// secrets returns the names of all Secrets in a namespace.
func (w *world) secrets(namespace string) []string {
	w.t.Helper()
	list := &corev1.SecretList{}
	w.must(w.Client.List(w.ctx, list, client.InNamespace(namespace)))
	var out []string
	for _, s := range list.Items {
		out = append(out, s.Name)
	}
	return out
}

func TestStateOfExtensionsIsRestored(t *testing.T) {
	w := newWorld(t)
	if saved, err := shootstate.Load(w.ctx, w.garden, w.shoot); err != nil || saved != nil {
		t.Fatalf("Load() = %v, %v, want nothing", saved, err)
	}
	referenced := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: "terraform", Labels: map[string]string{"l": "1"}},
		Data:       map[string]string{"k": "v"},
	}
	w.must(w.Client.Create(w.ctx, referenced))
	infra := w.infrastructure(`{"serial":9007199254740993,"vpc":"1"}`, reference("terraform"))
	w.machines(3)
	w.pass()
	saved, err := shootstate.Load(w.ctx, w.garden, w.shoot)
	w.must(err)

	state, resources := saved.StateOfObject(infra)
	if string(state.Raw) != `{"serial":9007199254740993,"vpc":"1"}` || len(resources) != 1 ||
		resources[0] != reference("terraform") {
		t.Errorf("state of the Infrastructure is %s with %v", state.Raw, resources)
	}
	if state, resources := saved.StateOf("Infrastructure", "another", nil); state != nil || resources != nil {
		t.Errorf("state of an unknown object is %s with %v, want none", state.Raw, resources)
	}
	state, _ = saved.StateOf(extensionsv1alpha1.WorkerKind, w.shoot.Name, nil)
	machines, err := worker.DecodeState(state)
	w.must(err)
	if pool := machines["pool"]; len(pool.Machines) != 3 || len(pool.MachineSets) != 1 || pool.Replicas != 3 {
		t.Errorf("machines are %+v", machines)
	}
	elsewhere := w.emptyNamespace()
	for range 2 {
		w.must(saved.CreateResources(w.ctx, w.Client, elsewhere))
	}
	got := &corev1.ConfigMap{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: elsewhere, Name: "terraform"}, got))
	if got.Data["k"] != "v" || got.Labels["l"] != "1" {
		t.Errorf("the restored ConfigMap is %+v", got)
	}
}
