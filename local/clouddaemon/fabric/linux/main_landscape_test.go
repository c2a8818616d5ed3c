//go:build landscape && linux

package linux_test

import (
	"testing"

	"hortus.dev/hortus/local/clouddaemon/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }
