package corpus

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/api/validation"
)

// The fields that are present even if they are empty are part of the wire format: clients distinguish a missing field
// from an empty one, and null from an empty list.
func TestEmptyObjects(t *testing.T) {
	var out strings.Builder
	show := func(name string, object any) {
		t.Helper()
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s\n", name, raw)
	}
	for _, kind := range validation.Kinds {
		show(kind.GroupVersion().String()+" "+kind.Kind, kind.New())
	}
	show("Worker", corev1beta1.Worker{})
	show("MachineImage", corev1beta1.MachineImage{})
	show("MachineType", corev1beta1.MachineType{})
	show("LastOperation", corev1beta1.LastOperation{})
	show("Condition", corev1beta1.Condition{})
	show("ProjectMember", corev1beta1.ProjectMember{})
	show("EncryptionConfig", corev1beta1.EncryptionConfig{})
	show("CARotation", corev1beta1.CARotation{})
	compareGolden(t, filepath.Join("..", "testdata", "empty.golden"), out.String())
}
