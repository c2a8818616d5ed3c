package workloadidentity

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSignedTokens(t *testing.T) {
	key := newKey(t)
	identity := &securityv1alpha1.WorkloadIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "w", UID: "1"},
		Spec:       securityv1alpha1.WorkloadIdentitySpec{Audiences: []string{"cloud"}},
		Status:     securityv1alpha1.WorkloadIdentityStatus{Sub: "gardener.cloud:workloadidentity:garden-dev:w:1"},
	}
	object := &securityv1alpha1.ContextObject{
		APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot", Namespace: ptr.To("garden-dev"), Name: "s", UID: "2",
	}
	now := time.Unix(1000, 0)
	token, err := (&TokenIssuer{Key: key}).sign(claimsOf(identity, object, "https://issuer.x.org", "id", now,
		now.Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("token is %s", token)
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, digest[:], signature); err != nil {
		t.Errorf("signature: %v", err)
	}
	decode := func(part string) map[string]any {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := json.Unmarshal(raw, &content); err != nil {
			t.Fatal(err)
		}
		return content
	}
	if diff := cmp.Diff(map[string]any{"alg": "RS256", "typ": "JWT", "kid": KeyID(&key.PublicKey)},
		decode(parts[0])); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"iss": "https://issuer.x.org", "sub": identity.Status.Sub, "aud": []any{"cloud"}, "jti": "id",
		"iat": 1000.0, "nbf": 1000.0, "exp": 4600.0,
		"gardener.cloud": map[string]any{
			"workloadIdentity": map[string]any{"name": "w", "namespace": "garden-dev", "uid": "1"},
			"contextObject":    map[string]any{"kind": "Shoot", "name": "s", "namespace": "garden-dev", "uid": "2"},
		},
	}
	if diff := cmp.Diff(want, decode(parts[1])); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestLifetime(t *testing.T) {
	issuer := &TokenIssuer{Max: 2 * time.Hour}
	for seconds, want := range map[int64]time.Duration{0: time.Hour, 600: 10 * time.Minute, 86400: 2 * time.Hour} {
		request := &securityv1alpha1.TokenRequest{}
		if seconds > 0 {
			request.Spec.ExpirationSeconds = &seconds
		}
		if got := issuer.lifetime(request); got != want {
			t.Errorf("%d s requested: %s", seconds, got)
		}
	}
}

func TestContextObject(t *testing.T) {
	issuer := &TokenIssuer{UID: func(_ context.Context, _ schema.GroupVersionKind, _, name string) (types.UID, error) {
		switch name {
		case "here":
			return "1", nil
		case "hidden":
			return "", apierrors.NewForbidden(schema.GroupResource{}, name, nil)
		}
		return "", apierrors.NewNotFound(schema.GroupResource{}, name)
	}}
	object := func(name string, uid types.UID) *securityv1alpha1.ContextObject {
		return &securityv1alpha1.ContextObject{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Shoot", Name: name, UID: uid}
	}
	for name, tc := range map[string]struct {
		object *securityv1alpha1.ContextObject
		want   string
	}{
		"the one that is meant": {object("here", "1"), ""},
		"an earlier one":        {object("here", "0"), "spec.contextObject.uid"},
		"one that is not there": {object("gone", "1"), "spec.contextObject"},
	} {
		errs, err := issuer.contextProblem(t.Context(), tc.object)
		if err != nil || (len(errs) == 0) != (tc.want == "") || len(errs) > 0 && errs[0].Field != tc.want {
			t.Errorf("%s: %v, %v", name, errs, err)
		}
	}
	if _, err := issuer.contextProblem(t.Context(), object("hidden", "1")); !apierrors.IsForbidden(err) {
		t.Errorf("an object that the caller may not read: %v", err)
	}
}

func TestParseKey(t *testing.T) {
	key := newKey(t)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"PKCS 1": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)},
		"PKCS 8": {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if got, err := ParseKey(pem.EncodeToMemory(block)); err != nil || !got.Equal(key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseKey([]byte("x")); err == nil {
		t.Error("other data is parsed as a key")
	}
}
