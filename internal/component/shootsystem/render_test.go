package shootsystem

import (
	"testing"

	"hortus.dev/hortus/internal/golden"
)

func TestRender(t *testing.T) {
	v := Values{ClusterIdentity: "shoot--dev--a-uid-garden", Info: map[string]string{"shootName": "a"}}
	golden.Objects(t, "workerless", Render(v)...)
	v.Workers = true
	golden.Objects(t, "with-workers", Render(v)...)
	golden.Objects(t, "namespaces", Namespaces()...)
}
