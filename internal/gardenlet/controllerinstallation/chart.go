package controllerinstallation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/chart/oci"
)

// keyCABundle is the key of certificates in a Secret.
const keyCABundle = "bundle.crt"

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
	source := oci.Source{Reference: referenceOf(repository)}
	for _, part := range []struct {
		from *corev1.LocalObjectReference
		key  string
		to   *[]byte
	}{
		{repository.PullSecretRef, corev1.DockerConfigJsonKey, &source.DockerConfig},
		{repository.CABundleSecretRef, keyCABundle, &source.CABundle},
	} {
		if part.from == nil {
			continue
		}
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: part.from.Name}
		if err := r.Garden.Get(ctx, key, secret); err != nil {
			return nil, fmt.Errorf("read Secret %s of ControllerDeployment %q: %w", key, deployment.Name, err)
		}
		if *part.to = secret.Data[part.key]; len(*part.to) == 0 {
			return nil, fmt.Errorf("Secret %s of ControllerDeployment %q has no key %q", key, deployment.Name, part.key)
		}
	}
	archive, err := r.Charts.Pull(ctx, installation.Name, source)
	if err != nil {
		return nil, fmt.Errorf("helm.ociRepository of ControllerDeployment %q: %w", deployment.Name, err)
	}
	return archive, nil
}

// referenceOf is the full reference of a repository. Validation makes sure that it has a tag or a digest.
func referenceOf(repository *corev1v1.OCIRepository) string {
	switch {
	case repository.Ref != nil:
		return *repository.Ref
	case repository.Repository == nil:
		return ""
	case repository.Digest != nil:
		return *repository.Repository + "@" + *repository.Digest
	case repository.Tag != nil:
		return *repository.Repository + ":" + *repository.Tag
	}
	return *repository.Repository
}
