package vpnseedserver

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	service, deployment := Render(Values{Namespace: "shoot--dev--a", Image: "hortus.dev/hortus:dev", Replicas: 1, ServerSecret: "vpn-seed-server-12345678", CASecret: "ca-vpn-bundle-12345678"})
	golden.Objects(t, "vpn-seed-server", service, deployment)
}
