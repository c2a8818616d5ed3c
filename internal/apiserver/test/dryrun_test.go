package test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Maintenance tries its changes with a dry run first.
func TestDryRunChangesNothing(t *testing.T) {
	g := newGarden(t)
	dry := client.NewDryRunClient(g.Client)
	shoot := g.newShoot()
	if err := dry.Create(g.ctx, shoot); err != nil {
		t.Fatal(err)
	}
	if shoot.Spec.Kubernetes.Version != "1.36.3" || shoot.UID == "" {
		t.Errorf("the response to a dry run is not that of a creation: version %q", shoot.Spec.Kubernetes.Version)
	}
	if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(shoot), &corev1beta1.Shoot{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a dry run creates: %v", err)
	}
	shoot = g.newShoot()
	shoot.Spec.Region = "moon"
	if err := dry.Create(g.ctx, shoot); !apierrors.IsForbidden(err) {
		t.Errorf("admission does not see a dry run: %v", err)
	}

	shoot = g.newShoot()
	g.Create(t, shoot)
	g.mustPatch(shoot, `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)
	stored := shoot.DeepCopy()
	for name, request := range map[string]func(*corev1beta1.Shoot) error{
		"update": func(s *corev1beta1.Shoot) error {
			s.Spec.Provider.Workers[0].Maximum = 7
			return dry.Update(g.ctx, s)
		},
		"patch": func(s *corev1beta1.Shoot) error {
			return dry.Patch(g.ctx, s, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"purpose":"testing"}}`)))
		},
		"apply": func(s *corev1beta1.Shoot) error {
			s.ManagedFields, s.ResourceVersion = nil, ""
			s.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind("Shoot"))
			options := []client.PatchOption{client.FieldOwner("test"), client.ForceOwnership}
			return dry.Patch(g.ctx, s, client.Apply, options...) //nolint:staticcheck // Typed objects have no alternative.
		},
		"status": func(s *corev1beta1.Shoot) error {
			s.Status.TechnicalID = "x"
			return dry.Status().Update(g.ctx, s)
		},
		"delete": func(s *corev1beta1.Shoot) error { return dry.Delete(g.ctx, s) },
		"delete of all": func(s *corev1beta1.Shoot) error {
			return dry.DeleteAllOf(g.ctx, &corev1beta1.Shoot{}, client.InNamespace(s.Namespace))
		},
	} {
		if err := request(stored.DeepCopy()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := &corev1beta1.Shoot{}
		if err := g.Client.Get(g.ctx, client.ObjectKeyFromObject(stored), got); err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		got.TypeMeta = stored.TypeMeta
		if diff := cmp.Diff(stored, got); diff != "" {
			t.Errorf("a dry run of %s changes (-before +after):\n%s", name, diff)
		}
	}
	if err := dry.Delete(g.ctx, g.shootWithoutConfirmation(t)); !apierrors.IsForbidden(err) {
		t.Errorf("a dry run deletes without confirmation: %v", err)
	}
}

func (g *garden) shootWithoutConfirmation(t *testing.T) *corev1beta1.Shoot {
	shoot := g.newShoot()
	g.Create(t, shoot)
	return shoot
}
