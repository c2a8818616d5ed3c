package gateway

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	golden.Objects(t, "gateway", Render(Values{Image: "hortus.dev/hortus:dev", Replicas: 2})...)
}
