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
		deployment.Annotations[AnnotationMigrationType] == old.Annotations[AnnotationMigrationType] {
		return nil
	}
	var warnings []string
	if deployment.Helm != nil && deployment.Helm.OCIRepository != nil {
		warnings = append(warnings,
			"helm.ociRepository has no effect: charts are not pulled, so the extension is not installed; give helm.rawChart")
	}
	if kind := deployment.Annotations[AnnotationMigrationType]; kind != "" {
		warnings = append(warnings, fmt.Sprintf("type %q has no effect: only the type helm is installed", kind))
	}
	if deployment.InjectGardenKubeconfig != nil && *deployment.InjectGardenKubeconfig {
		warnings = append(warnings, "injectGardenKubeconfig has no effect: extensions get no access to the garden")
	}
	return warnings
}
