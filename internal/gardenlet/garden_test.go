package gardenlet

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1api "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithSeedAuthorizer(), env.WithCRDs(crds.Seed()...), env.WithScheme(extensionsv1alpha1.AddToScheme))
}

// TestConfinedGardenletStarts: the seed authorizer allows everything that the gardenlet reads and watches at its start.
func TestConfinedGardenletStarts(t *testing.T) {
	e := env.Shared(t)
	e.GardenRoles(t)
	config := e.As(corev1beta1.SeedUserPrefix+"own", corev1beta1.SeedsGroup)
	scheme, err := GardenScheme()
	if err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := (&shoot.GardenIdentity{Garden: direct}).Get(t.Context())
	if err != nil || identity == corev1beta1.GardenNamespace {
		t.Errorf("the identity of the garden is %q (%v)", identity, err)
	}
	options := gardenCache("own")
	options.Scheme = scheme
	watched, err := cache.New(config, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, kind := range []client.Object{
		&corev1beta1.Shoot{}, &corev1beta1.Seed{}, &corev1beta1.ControllerInstallation{},
		&corev1beta1.ControllerRegistration{}, &corev1api.ControllerDeployment{},
		&corev1beta1.BackupBucket{}, &corev1beta1.BackupEntry{},
	} {
		if _, err := watched.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = watched.Start(ctx) }() // It ends with the test.
	if !watched.WaitForCacheSync(ctx) {
		t.Error("the caches are not filled: a watch is forbidden")
	}
}
