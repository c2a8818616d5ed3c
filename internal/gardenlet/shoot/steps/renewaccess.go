package steps

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// RenewAccess replaces the tokens of components in the seed while the key that signs them is being rotated: tokens
// signed with the old key become invalid with it.
var RenewAccess = &flow.Step[*Scope]{
	Name:   "renew-access",
	After:  []*flow.Step[*Scope]{ResourceManager},
	SkipIf: when(asleep, withoutServiceAccountKeyRotation),
	Ensure: use2(ensureRenewedAccess),
}

func withoutServiceAccountKeyRotation(s *Values) string {
	if r := serviceAccountKeyRotation(s); r != nil && r.LastInitiationTime != nil {
		switch r.Phase {
		case corev1beta1.RotationPreparing, corev1beta1.RotationPreparingWithoutWorkersRollout,
			corev1beta1.RotationWaitingForWorkersRollout:
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

func ensureRenewedAccess(ctx context.Context, s *Values, seed *Seed) (flow.Outcome, error) {
	initiated := serviceAccountKeyRotation(s).LastInitiationTime.Time
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
		if token := string(secret.Data["token"]); token == "" || !issuedAt(token).Before(initiated) {
			continue
		}
		waiting = append(waiting, secret.Name)
		if _, set := secret.Annotations[resourcesv1alpha1.AnnotationTokenRenewTimestamp]; !set {
			continue
		}
		before := secret.DeepCopy()
		delete(secret.Annotations, resourcesv1alpha1.AnnotationTokenRenewTimestamp)
		if err := seed.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
			return flow.Outcome{}, fmt.Errorf("request a new token in Secret %q: %w", secret.Name, err)
		}
	}
	if len(waiting) > 0 {
		return flow.Waiting(waitToken, "Tokens are being replaced: "+strings.Join(waiting, ", ")), nil
	}
	return flow.Done(), nil
}

// issuedAt reads when a token was issued. What cannot be read is no token of ours and counts as new.
func issuedAt(token string) time.Time {
	never := time.Unix(1<<40, 0)
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return never
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return never
	}
	var claims struct {
		IssuedAt int64 `json:"iat"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.IssuedAt == 0 {
		return never
	}
	return time.Unix(claims.IssuedAt, 0)
}
