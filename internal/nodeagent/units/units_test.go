package units_test

import (
	"testing"

	"hortus.dev/hortus/internal/nodeagent/units"
	"hortus.dev/hortus/internal/nodeagent/units/conformance"
)

func TestFakeConforms(t *testing.T) {
	dir := t.TempDir()
	conformance.Run(t, conformance.Host{Units: units.NewFake(dir), Dir: dir})
}
