// Package test runs the gardenlet as a whole, in the test's process, against a real API server.
package test

import (
	"testing"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithSeedAuthorizer(), env.WithCRDs(crds.Seed()...),
		env.WithScheme(extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme))
}
