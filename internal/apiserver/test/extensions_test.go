package test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// Installers register extensions and use them at once, as in `kubectl apply -f` of one file.
func TestExtensionsCanBeUsedAtOnce(t *testing.T) {
	const attempts = 30
	g := newGarden(t)
	for i := range attempts {
		kind := env.Name("x")
		registration := &corev1beta1.ControllerRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: kind},
			Spec: corev1beta1.ControllerRegistrationSpec{Resources: []corev1beta1.ControllerResource{
				{Kind: "Network", Type: kind}, {Kind: "DNSRecord", Type: kind},
			}},
		}
		shoot, seed := g.newShoot(), newSeed()
		shoot.Spec.Networking.Type, seed.Spec.DNS.Provider.Type = ptr.To(kind), kind
		try := func(object client.Object) error {
			return g.Client.Create(g.ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		}
		if i == 0 { // Rejections take 0.1 s, until etcd reports its progress to the watch cache.
			refuse(t, "a Shoot before", try(shoot), apierrors.IsForbidden, "no extension registered for Network/"+kind)
			refuse(t, "a Seed before", try(seed), apierrors.IsForbidden, "no extension registered for DNSRecord/"+kind)
		}
		g.Create(t, registration)
		for _, object := range []client.Object{shoot, seed} {
			if err := try(object); err != nil {
				t.Errorf("%T after: %v", object, err)
			}
		}
	}
}
