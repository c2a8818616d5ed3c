package test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/secretsmanager"
)

// A control plane whose Secrets come from the ShootState generates none that cannot be derived, whichever change was in
// progress when its seed was lost.
func TestControlPlaneIsBuiltFromItsShootState(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1beta1.Shoot){
		"all credentials are being rotated": func(s *corev1beta1.Shoot) {
			s.Annotations = map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationRotateCredentialsStart}
		},
		"the encryption at rest is being changed": func(s *corev1beta1.Shoot) {
			s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{EncryptionConfig: &corev1beta1.EncryptionConfig{
				Resources: []string{"configmaps"},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.run(w.newShoot("a"), succeeded)
			before := s.DeepCopy()
			change(s)
			w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
			for range 4 { // In the middle of the change.
				var err error
				if s, err = w.step(s); err != nil {
					t.Fatal(err)
				}
				w.seedActs(s)
			}
			states := &shootstate.States{Garden: w.gardenlet, Seed: w.Client, Clock: w.clock, SeedName: w.seed.Name}
			outcome, err := states.Save(w.ctx, s)
			w.must(err)
			t.Logf("the ShootState has %d bytes", outcome.Bytes)
			had := w.persistent(s)
			if len(had) < 10 || !slices.ContainsFunc(slices.Collect(maps.Keys(had)), isEncryptionConfig) {
				t.Fatalf("persistent Secrets are %v", slices.Sorted(maps.Keys(had)))
			}

			w.must(w.Client.DeleteAllOf(w.ctx, &corev1.Secret{}, client.InNamespace(s.Status.TechnicalID)))
			saved, err := shootstate.Load(w.ctx, w.gardenlet, s)
			w.must(err)
			w.must(saved.CreateSecrets(w.ctx, w.Client, s.Status.TechnicalID))
			if diff := cmp.Diff(had, w.persistent(s)); diff != "" {
				t.Fatalf("restored Secrets mismatch (-had +have):\n%s", diff)
			}
			w.run(s, succeeded)
			for name, data := range w.persistent(s) { // A rotation in progress deletes some.
				if !isEncryptionConfig(name) && !maps.Equal(data, had[name]) {
					t.Errorf("Secret %s was generated anew", name)
				}
			}
		})
	}
}

func isEncryptionConfig(name string) bool {
	return strings.HasPrefix(name, kubeapiserver.EncryptionSecretName)
}

// persistent are the Secrets of a control plane that must not be generated anew, by name.
func (w *world) persistent(s *corev1beta1.Shoot) map[string]map[string]string {
	w.t.Helper()
	list := &corev1.SecretList{}
	w.must(w.Client.List(w.ctx, list, client.InNamespace(s.Status.TechnicalID),
		client.MatchingLabels{secretsmanager.LabelPersist: "true"}))
	out := map[string]map[string]string{}
	for _, secret := range list.Items {
		data := map[string]string{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		out[secret.Name] = data
	}
	return out
}
