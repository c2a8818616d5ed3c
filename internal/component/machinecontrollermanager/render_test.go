package machinecontrollermanager

import (
	"testing"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	golden.Objects(t, "seed", Render(Values{
		Namespace: "shoot--dev--a", Image: "hortus.dev/hortus:dev", Replicas: 1, Size: component.Small,
		Access: component.ClientAccess{CASecret: "ca-bundle-1", CertSecret: "machine-controller-manager-1"},
	})...)
	golden.Objects(t, "shoot", ShootAccess()...)
}
