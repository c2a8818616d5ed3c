package env

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { Main(m, WithGardenAPI()) }

func TestEnvironmentServesBothAPIs(t *testing.T) {
	e := Shared(t)
	project := e.Project(t)
	if project.Spec.CreatedBy == nil || project.Spec.Owner == nil {
		t.Errorf("project has no creator and owner: %+v", project.Spec)
	}
	namespaces := &corev1.NamespaceList{}
	if err := e.Client.List(t.Context(), namespaces); err != nil {
		t.Fatal(err)
	}
}
