package env

import (
	"fmt"
	"slices"
	"testing"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/kube"
)

// gardenRoles are the roles of the garden that concern gardenlets.
var gardenRoles = []string{
	"gardener.cloud:system:seeds", "gardener.cloud:system:seed-authorizer", "gardener.cloud:system:read-global-resources",
}

// GardenRoles applies, once, the roles that the garden's chart gives to gardenlets and to all authenticated users.
func (e *Environment) GardenRoles(t testing.TB) {
	t.Helper()
	e.roles.Do(func() { e.rolesError = e.applyGardenRoles(t) })
	if e.rolesError != nil {
		t.Fatalf("apply roles of the garden: %v", e.rolesError)
	}
}

func (e *Environment) applyGardenRoles(t testing.TB) error {
	loaded, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		return err
	}
	objects, err := chart.Render(loaded, chart.Release{Name: "garden", Namespace: "garden"}, map[string]any{
		"caCrt": "CA", "apiserver": map[string]any{"encryptionSecret": "encryption"},
		"seedAuthorizer": map[string]any{"caller": AuthorizationCaller},
	})
	if err != nil {
		return err
	}
	found := 0
	for _, object := range objects {
		if slices.Contains(gardenRoles, object.GetName()) {
			found++
			if err := kube.Apply(t.Context(), e.Client, object, "test"); err != nil {
				return err
			}
		}
	}
	if found != 2*len(gardenRoles) {
		return fmt.Errorf("the chart has %d of the roles and bindings, want %d", found, 2*len(gardenRoles))
	}
	return nil
}
