package test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// heard collects the warnings of a client.
type heard struct {
	sync.Mutex
	texts []string
}

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	h.Lock()
	defer h.Unlock()
	h.texts = append(h.texts, text)
}

// take returns the warnings since the last call.
func (h *heard) take() []string {
	h.Lock()
	defer h.Unlock()
	texts := h.texts
	h.texts = nil
	return texts
}

func listening(t *testing.T, e *env.Environment) (client.Client, *heard) {
	t.Helper()
	h := &heard{}
	config := rest.CopyConfig(e.Config)
	config.WarningHandlerWithContext = h
	c, err := client.New(config, client.Options{Scheme: e.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c, h
}

func TestClientsAreWarned(t *testing.T) {
	g := newGarden(t)
	c, h := listening(t, g.Environment)
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, h.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	label := func(object client.Object) {
		t.Helper()
		if err := c.Patch(t.Context(), object,
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
			t.Fatal(err)
		}
	}
	create := func(object client.Object) {
		t.Helper()
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = g.Client.Delete(context.WithoutCancel(t.Context()), object) // Remaining objects are deleted with the server.
		})
	}

	shoot := g.newShoot()
	shoot.Spec.CloudProfileName, shoot.Spec.CloudProfile = ptr.To(g.profile.Name), nil
	shoot.Spec.Kubernetes.Version = "1.36.1"
	shoot.Spec.Provider.Workers[0].Maximum = 1
	shoot.Spec.Provider.Workers[0].Machine.Image = &corev1beta1.ShootMachineImage{
		Name: "hortus-machine", Version: ptr.To("1.0.0"),
	}
	shoot.Spec.DNS = &corev1beta1.DNS{
		Domain:    ptr.To(env.Name("d") + ".example.com"),
		Providers: []corev1beta1.DNSProvider{{Type: ptr.To("local"), Primary: ptr.To(true), SecretName: ptr.To("cloud")}},
	}
	shoot.Spec.Resources = nil
	create(shoot)
	expect("a new Shoot",
		"spec.cloudProfileName is deprecated, use spec.cloudProfile",
		"spec.dns.providers[0].secretName is deprecated, use credentialsRef",
		"spec.kubernetes.version: 1.36.1 is deprecated; the next maintenance updates it to 1.36.3",
		"spec.provider.workers[0].machine.image: hortus-machine 1.0.0 is deprecated; the next maintenance updates it to 1.1.0",
	)
	label(shoot)
	expect("a Shoot with a new label")

	nobodys := g.newShoot()
	namespace := g.Namespace(t, nil).Name
	nobodys.Namespace, nobodys.Spec.CloudProfile.Kind, nobodys.Spec.Provider.Workers[0].Maximum = namespace,
		"CloudProfile", 1
	binding := g.binding.DeepCopy()
	binding.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: g.binding.Name}
	create(binding)
	create(nobodys)
	expect("a Shoot in a namespace of no Project",
		`metadata.namespace: "`+namespace+
			`" belongs to no Project; nothing is done for the Shoot until spec.namespace of one names it`)
	label(nobodys)
	expect("the same Shoot with a label")

	seed := newSeed()
	seed.Spec.Backup.CredentialsRef, seed.Spec.Backup.SecretRef = nil,
		&corev1.SecretReference{Namespace: "garden", Name: "dns"}
	create(seed)
	expect("a new Seed", "spec.backup.secretRef is deprecated, use credentialsRef")
	label(seed)
	expect("a Seed with a new label")

	bucket := &corev1beta1.BackupBucket{}
	bucket.Name = env.Name("bucket-")
	bucket.Spec.Provider = corev1beta1.BackupBucketProvider{Type: "local", Region: "local"}
	bucket.Spec.SeedName = &seed.Name
	bucket.Spec.SecretRef = &corev1.SecretReference{Namespace: "garden", Name: "dns"}
	create(bucket)
	expect("a new BackupBucket", "spec.secretRef is deprecated, use credentialsRef")
	label(bucket)
	expect("a BackupBucket with a new label")

	for _, text := range h.take() {
		if strings.Contains(text, "deprecated") {
			t.Errorf("late: %s", text)
		}
	}
}
