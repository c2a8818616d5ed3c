package apiserverproxy

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	golden.Objects(t, "apiserver-proxy", Render(Values{
		Image: "hortus.dev/hortus:dev", Address: "10.0.0.7", Gateway: "api.a.dev.internal.local.hortus.dev:8443",
	})...)
}
