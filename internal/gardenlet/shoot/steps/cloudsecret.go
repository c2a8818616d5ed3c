package steps

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// cloudProviderSecret is where extensions find the user's credentials.
const cloudProviderSecret = "cloudprovider"

// CloudCredentials copies the credentials of the Shoot's binding into its control plane namespace.
var CloudCredentials = &flow.Step[*Scope]{
	Name:   "cloud-credentials",
	After:  []*flow.Step[*Scope]{Namespace},
	SkipIf: when(workerless),
	Ensure: use3(ensureCloudCredentials),
}

func ensureCloudCredentials(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace,
) (flow.Outcome, error) {
	data, err := cloudCredentials(ctx, s, garden)
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Done(), seed.apply(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: cloudProviderSecret, Namespace: s.Namespace,
			Labels: map[string]string{corev1beta1.LabelPurpose: cloudProviderSecret},
		},
		Type: corev1.SecretTypeOpaque,
		Data: data,
	})
}

// cloudCredentials follows the Shoot's binding to the credentials in the garden.
func cloudCredentials(ctx context.Context, s *Values, garden *GardenNamespace) (map[string][]byte, error) {
	namespace := s.Shoot.Namespace
	switch {
	case s.Shoot.Spec.CredentialsBindingName != nil:
		b := &securityv1alpha1.CredentialsBinding{}
		if err := garden.Get(ctx, client.ObjectKey{Namespace: namespace, Name: *s.Shoot.Spec.CredentialsBindingName},
			b); err != nil {
			return nil, fmt.Errorf("read CredentialsBinding %q: %w", *s.Shoot.Spec.CredentialsBindingName, err)
		}
		return garden.credentials(ctx, b.CredentialsRef, namespace)
	case s.Shoot.Spec.SecretBindingName != nil:
		b := &corev1beta1.SecretBinding{}
		if err := garden.Get(ctx, client.ObjectKey{Namespace: namespace, Name: *s.Shoot.Spec.SecretBindingName},
			b); err != nil {
			return nil, fmt.Errorf("read SecretBinding %q: %w", *s.Shoot.Spec.SecretBindingName, err)
		}
		return garden.credentials(ctx, corev1.ObjectReference{
			Kind: "Secret", Namespace: b.SecretRef.Namespace, Name: b.SecretRef.Name,
		}, namespace)
	}
	return nil, flow.WithCodes(fmt.Errorf("the Shoot names neither a CredentialsBinding nor a SecretBinding"),
		string(corev1beta1.ErrorConfigurationProblem))
}

// credentials reads the data behind a reference in the garden; without a namespace it is in the default one.
func (garden *GardenNamespace) credentials(
	ctx context.Context, ref corev1.ObjectReference, defaultNamespace string,
) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = defaultNamespace
	}
	switch ref.Kind {
	case "Secret", "":
		secret := &corev1.Secret{}
		if err := garden.Get(ctx, key, secret); err != nil {
			return nil, fmt.Errorf("read Secret %s: %w", key, err)
		}
		return secret.Data, nil
	case "InternalSecret":
		secret := &corev1beta1.InternalSecret{}
		if err := garden.Get(ctx, key, secret); err != nil {
			return nil, fmt.Errorf("read InternalSecret %s: %w", key, err)
		}
		return secret.Data, nil
	}
	return nil, flow.WithCodes(fmt.Errorf("credentials of kind %s are not supported by this seed", ref.Kind),
		string(corev1beta1.ErrorConfigurationProblem))
}
