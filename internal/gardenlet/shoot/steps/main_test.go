package steps

import (
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"hortus.dev/hortus/test/leaks"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	leaks.Main(m)
}
