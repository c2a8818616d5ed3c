package steps

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestControllerHasWork(t *testing.T) {
	kept := metav1.PartialObjectMetadata{}
	deleted := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		DeletionTimestamp: &metav1.Time{Time: time.Unix(0, 0)},
	}}
	type objects = map[string][]metav1.PartialObjectMetadata
	for name, test := range map[string]struct {
		objects objects
		want    bool
	}{
		"nothing":                     {nil, false},
		"no objects":                  {objects{"Machine": nil, "MachineSet": nil}, false},
		"a machine":                   {objects{"Machine": {kept}}, true},
		"a machine that ends":         {objects{"Machine": {deleted}}, true},
		"a pool of no machines":       {objects{"MachineDeployment": {kept}, "MachineClass": {kept}}, false},
		"a set that is being deleted": {objects{"MachineDeployment": {kept}, "MachineSet": {kept, deleted}}, true},
		"a class that ends":           {objects{"MachineClass": {deleted}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := controllerHasWork(test.objects); got != test.want {
				t.Errorf("controllerHasWork = %t, want %t", got, test.want)
			}
		})
	}
}
