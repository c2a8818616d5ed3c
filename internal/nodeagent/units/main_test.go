package units_test

import (
	"testing"

	"hortus.dev/hortus/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
