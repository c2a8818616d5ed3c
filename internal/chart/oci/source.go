package oci

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// keyCABundle is the key of certificates in a Secret.
const keyCABundle = "bundle.crt"

// SourceOf returns the chart in a repository, with the credentials and certificates from the Secrets that it names in
// the namespace garden.
func SourceOf(ctx context.Context, garden client.Reader, repository *corev1v1.OCIRepository) (Source, error) {
	source := Source{Reference: repository.Reference()}
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
		if err := garden.Get(ctx, key, secret); err != nil {
			return Source{}, fmt.Errorf("read Secret %s: %w", key, err)
		}
		if *part.to = secret.Data[part.key]; len(*part.to) == 0 {
			return Source{}, fmt.Errorf("Secret %s has no key %q", key, part.key)
		}
	}
	return source, nil
}
