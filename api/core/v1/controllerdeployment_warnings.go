package v1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
)

// WarningsControllerDeployment names what is accepted but without effect, by the paths of this version. old is nil for
// a new ControllerDeployment.
func WarningsControllerDeployment(deployment, old *ControllerDeployment) []string {
	if old != nil && equality.Semantic.DeepEqual(deployment.Helm, old.Helm) &&
		deployment.Annotations[AnnotationMigrationType] == old.Annotations[AnnotationMigrationType] {
		return nil
	}
	if kind := deployment.Annotations[AnnotationMigrationType]; kind != "" {
		return []string{fmt.Sprintf("type %q has no effect: only the type helm is installed", kind)}
	}
	return nil
}
