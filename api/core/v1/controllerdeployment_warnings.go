package v1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
)

// WarningsControllerDeployment names what is accepted but without effect, by the paths of this version. old is nil for
// a new ControllerDeployment.
func WarningsControllerDeployment(deployment, old *ControllerDeployment) []string {
	if old != nil && equality.Semantic.DeepEqual(deployment.Helm, old.Helm) &&
		equality.Semantic.DeepEqual(deployment.InjectGardenKubeconfig, old.InjectGardenKubeconfig) &&
		equality.Semantic.DeepEqual(deployment.Resources, old.Resources) &&
		deployment.Annotations[AnnotationMigrationType] == old.Annotations[AnnotationMigrationType] {
		return nil
	}
	var warnings []string
	if kind := deployment.Annotations[AnnotationMigrationType]; kind != "" {
		warnings = append(warnings, fmt.Sprintf("type %q has no effect: only the type helm is installed", kind))
	}
	if deployment.InjectGardenKubeconfig != nil && *deployment.InjectGardenKubeconfig {
		warnings = append(warnings, "injectGardenKubeconfig has no effect: extensions get no access to the garden")
	}
	if len(deployment.Resources) > 0 {
		warnings = append(warnings, "resources has no effect: charts get no values from other objects")
	}
	return warnings
}
