package shoot

import (
	"fmt"
	"testing"

	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

func TestEveryKindOfExtensionObjectsIsWatched(t *testing.T) {
	kinds := map[string]bool{}
	for _, o := range watched() {
		kinds[fmt.Sprintf("%T", o)] = true
	}
	for _, kind := range extensionobject.Kinds {
		if !kinds[fmt.Sprintf("%T", kind.New())] {
			t.Errorf("%s is not watched", kind.Name)
		}
	}
}
