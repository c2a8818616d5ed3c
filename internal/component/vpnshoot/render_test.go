package vpnshoot

import (
	"testing"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	golden.Objects(t, "vpn-shoot", Render(Values{Placement: component.SystemComponents(nil),
		Image: "hortus.dev/hortus:dev", Gateway: "api.a.dev.internal.local.hortus.dev:8132",
		Destination: "outbound|1194||vpn-seed-server.shoot--dev--a.svc.cluster.local",
		CABundle:    []byte("CA"), Cert: []byte("CERT"), Key: []byte("KEY"), Checksum: "1",
	})...)
}
