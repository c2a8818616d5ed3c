package test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

func TestTokensOfWorkloadIdentities(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	identity := &securityv1alpha1.WorkloadIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "w"},
		Spec: securityv1alpha1.WorkloadIdentitySpec{
			Audiences: []string{"cloud"}, TargetSystem: securityv1alpha1.TargetSystem{Type: "local"},
		},
	}
	g.Create(t, shoot, identity)
	ask := func(seconds *int64, object *securityv1alpha1.ContextObject) (*securityv1alpha1.TokenRequest, error) {
		request := &securityv1alpha1.TokenRequest{Spec: securityv1alpha1.TokenRequestSpec{
			ExpirationSeconds: seconds, ContextObject: object,
		}}
		return request, g.Client.SubResource("token").Create(g.ctx, identity, request)
	}
	context := &securityv1alpha1.ContextObject{
		APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot", Namespace: &g.namespace, Name: shoot.Name, UID: shoot.UID,
	}
	answer, err := ask(ptr.To[int64](1<<30), context)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(answer.Status.ExpirationTimestamp.Time); left > 48*time.Hour || left < 47*time.Hour {
		t.Errorf("the token lives for %s", left)
	}
	parts := strings.Split(answer.Status.Token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Iss, Sub string
		Gardener struct{ ContextObject struct{ UID string } } `json:"gardener.cloud"`
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	if claims.Iss != tokenIssuer || claims.Sub != identity.Status.Sub ||
		claims.Gardener.ContextObject.UID != string(shoot.UID) {
		t.Errorf("claims are %s", raw)
	}

	_, err = ask(ptr.To[int64](60), nil)
	refuse(t, "a life of a minute", err, apierrors.IsInvalid, "spec.expirationSeconds")
	other := *context
	other.UID = "another"
	_, err = ask(nil, &other)
	refuse(t, "an existing object", err, apierrors.IsInvalid, "spec.contextObject.uid")
	other = *context
	other.Kind = "Hut"
	_, err = ask(nil, &other)
	refuse(t, "a kind of another API", err, apierrors.IsBadRequest, "Hut")
	if err := g.ClientAs(t, "nobody").SubResource("token").Create(g.ctx, identity,
		&securityv1alpha1.TokenRequest{}); !apierrors.IsForbidden(err) {
		t.Errorf("a token for a user without the role: %v", err)
	}
}
