package steps

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// annotationSignedBy is the name of the Secret with the key that has signed the token of an access Secret, or that will
// sign it: the renewal has been requested from API servers that all use this key.
const annotationSignedBy = "hortus.dev/signed-by"

// RenewAccess replaces the tokens of components in the seed while the key that signs them is being rotated: tokens
// signed with the old key become invalid with it. API servers with the old key must be gone by then, because they would
// sign the new tokens, too.
var RenewAccess = &flow.Step[*Scope]{
	Name:   "renew-access",
	After:  []*flow.Step[*Scope]{ResourceManager, KubeAPIServerReady},
	SkipIf: when(asleep, withoutServiceAccountKeyRotation),
	Ensure: use3(ensureRenewedAccess),
}

// withoutServiceAccountKeyRotation says why no token has to be replaced. During the completion, only tokens that were
// missed before are.
func withoutServiceAccountKeyRotation(s *Values) string {
	if r := serviceAccountKeyRotation(s); r != nil && r.LastInitiationTime != nil {
		switch r.Phase {
		case corev1beta1.RotationPreparing, corev1beta1.RotationPreparingWithoutWorkersRollout,
			corev1beta1.RotationWaitingForWorkersRollout, corev1beta1.RotationCompleting:
			return ""
		}
	}
	return "no rotation"
}

func serviceAccountKeyRotation(s *Values) *corev1beta1.ServiceAccountKeyRotation {
	if c := s.Shoot.Status.Credentials; c != nil && c.Rotation != nil {
		return c.Rotation.ServiceAccountKey
	}
	return nil
}

func ensureRenewedAccess(ctx context.Context, s *Values, seed *SeedNamespace, keys Secrets) (flow.Outcome, error) {
	key, err := keys.Get(nameServiceAccountKey)
	if err != nil {
		return flow.Outcome{}, err
	}
	secrets := &corev1.SecretList{}
	selector := client.MatchingLabels{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor}
	if err := seed.List(ctx, secrets, client.InNamespace(s.Namespace), selector); err != nil {
		return flow.Outcome{}, fmt.Errorf("list access secrets: %w", err)
	}
	var waiting []string
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Labels[resourcesv1alpha1.LabelClass] == resourcesv1alpha1.ClassGarden {
			continue // The garden's key signs its token.
		}
		_, issued := secret.Annotations[resourcesv1alpha1.AnnotationTokenRenewTimestamp]
		requested := secret.Annotations[annotationSignedBy] == key.Name
		if issued == requested {
			continue // Its token is new, or its first one will be.
		}
		waiting = append(waiting, secret.Name)
		if requested {
			continue
		}
		before := secret.DeepCopy()
		delete(secret.Annotations, resourcesv1alpha1.AnnotationTokenRenewTimestamp)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationSignedBy, key.Name)
		if err := seed.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
			return flow.Outcome{}, fmt.Errorf("request a new token in Secret %q: %w", secret.Name, err)
		}
	}
	if len(waiting) > 0 {
		return flow.Waiting(waitToken, "Tokens are being replaced: "+strings.Join(waiting, ", ")), nil
	}
	return flow.Done(), nil
}
