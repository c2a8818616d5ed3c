package vpnseedserver

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	v := Values{
		Namespace: "shoot--dev--a", Image: "hortus.dev/hortus:dev", Replicas: 1,
		ServerSecret: "vpn-seed-server-12345678", CASecret: "ca-vpn-bundle-12345678",
		Workers: true, DeniedNetworks: []string{"10.1.0.0/16", "fd00::/8"},
	}
	service, deployment := Render(v)
	golden.Objects(t, "vpn-seed-server", service, deployment)
	v.Workers, v.DeniedNetworks = false, nil
	service, deployment = Render(v)
	golden.Objects(t, "workerless", service, deployment)
}
