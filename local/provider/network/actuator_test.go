package network

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestObjects(t *testing.T) {
	golden.Objects(t, "agent", Objects(Values{
		Image: "hortus.dev/hortus:v1", PodCIDR: "100.96.0.0/16", APIServer: "api.dev.example.com:443",
	})...)
}
