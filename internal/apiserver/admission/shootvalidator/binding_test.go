package shootvalidator

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// bindings returns an error, or bindings for one provider type.
type bindings struct {
	client.Reader
	provider string
	err      error
}

func (b bindings) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch object := object.(type) {
	case *corev1beta1.SecretBinding:
		if b.provider != "" {
			object.Provider = &corev1beta1.SecretBindingProvider{Type: b.provider}
		}
	case *securityv1alpha1.CredentialsBinding:
		object.Provider.Type = b.provider
	}
	return b.err
}

func TestProviderOfBinding(t *testing.T) {
	secret := shootOn("", func(s *corev1beta1.Shoot) { s.Spec.SecretBindingName = ptr.To("a") })
	credentials := shootOn("", func(s *corev1beta1.Shoot) { s.Spec.CredentialsBindingName = ptr.To("a") })
	down, gone := errors.New("connection refused"), apierrors.NewNotFound(corev1beta1.Resource("bindings"), "a")
	for name, tc := range map[string]struct {
		shoot  *corev1beta1.Shoot
		reader bindings
		want   string
		failed error
	}{
		"none":                             {shootOn(""), bindings{err: down}, "", nil},
		"a SecretBinding":                  {secret, bindings{provider: "local"}, "local", nil},
		"a SecretBinding without provider": {secret, bindings{}, "", nil},
		"a missing SecretBinding":          {secret, bindings{err: gone}, "", nil},
		"an unreadable SecretBinding":      {secret, bindings{err: down}, "", down},
		"a CredentialsBinding":             {credentials, bindings{provider: "local"}, "local", nil},
		"a missing CredentialsBinding":     {credentials, bindings{err: gone}, "", nil},
		"an unreadable CredentialsBinding": {credentials, bindings{err: down}, "", down},
	} {
		p := &plugin{hortusadmission.Base{Objects: &hortusadmission.Objects{Cached: tc.reader, Live: tc.reader}}}
		got, err := p.providerOfBinding(t.Context(), tc.shoot)
		if got != tc.want || !errors.Is(err, tc.failed) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
