package controllerinstallation

import (
	"context"
	"fmt"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/chart/oci"
)

// chart returns a deployment's chart, which is in it or in a registry. Its archive is empty if there is none.
func (r *Reconciler) chart(
	ctx context.Context, installation *corev1beta1.ControllerInstallation, deployment *corev1v1.ControllerDeployment,
) (oci.Chart, error) {
	if deployment.Helm == nil {
		return oci.Chart{}, nil
	}
	repository := deployment.Helm.OCIRepository
	if repository == nil {
		return oci.Chart{Archive: deployment.Helm.RawChart}, nil
	}
	source, err := oci.SourceOf(ctx, r.Garden, repository)
	if err != nil {
		return oci.Chart{}, fmt.Errorf("helm.ociRepository of ControllerDeployment %q: %w", deployment.Name, err)
	}
	pulled, err := r.Charts.Pull(ctx, installation.Name, source)
	if err != nil {
		return oci.Chart{}, fmt.Errorf("helm.ociRepository of ControllerDeployment %q: %w", deployment.Name, err)
	}
	if pulled.Stale != nil {
		pulled.Stale = fmt.Errorf("helm.ociRepository of ControllerDeployment %q: %w", deployment.Name, pulled.Stale)
	}
	return pulled, nil
}
