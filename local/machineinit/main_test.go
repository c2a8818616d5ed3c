package machineinit

import (
	"testing"

	"hortus.dev/hortus/test/leaks"
)

// playRole is replaced by tests that start the test program again in another role.
var playRole = func() {}

func TestMain(m *testing.M) {
	playRole()
	leaks.Main(m)
}
