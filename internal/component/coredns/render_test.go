package coredns

import (
	"testing"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	golden.Objects(t, "coredns", Render(Values{
		Image: "registry.k8s.io/coredns/coredns:v1.14.7", Placement: component.SystemComponents(nil),
		ClusterIP: "100.64.0.10", Replicas: 2, CommonSuffixes: []string{"example.com"},
	})...)
}
