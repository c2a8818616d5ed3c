package controllerinstallation

import (
	"context"
	"fmt"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/chart/oci"
)

// chart returns the archive of a deployment's chart, which is in it or in a registry. It is empty if there is none.
func (r *Reconciler) chart(
	ctx context.Context, installation *corev1beta1.ControllerInstallation, deployment *corev1v1.ControllerDeployment,
) ([]byte, error) {
	if deployment.Helm == nil {
		return nil, nil
	}
	repository := deployment.Helm.OCIRepository
	if repository == nil {
		return deployment.Helm.RawChart, nil
	}
	source, err := oci.SourceOf(ctx, r.Garden, repository)
	if err != nil {
		return nil, fmt.Errorf("helm.ociRepository of ControllerDeployment %q: %w", deployment.Name, err)
	}
	archive, err := r.Charts.Pull(ctx, installation.Name, source)
	if err != nil {
		return nil, fmt.Errorf("helm.ociRepository of ControllerDeployment %q: %w", deployment.Name, err)
	}
	return archive, nil
}
