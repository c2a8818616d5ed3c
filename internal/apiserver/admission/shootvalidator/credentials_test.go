package shootvalidator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestCredentialsChange(t *testing.T) {
	secret := func(name string) corev1.ObjectReference {
		return corev1.ObjectReference{Kind: "Secret", Namespace: "garden-dev", Name: name}
	}
	identity := corev1.ObjectReference{Kind: "WorkloadIdentity", Namespace: "garden-dev", Name: "a"}
	for name, tc := range map[string]struct {
		change *credentialsChange
		want   string
	}{
		"none": {nil, ""},
		"to a binding of the same Secret": {&credentialsChange{
			migration: true, from: secret("a"), to: secret("a"),
		}, ""},
		"to a binding of another Secret": {
			&credentialsChange{migration: true, from: secret("a"), to: secret("b")}, "must refer to Secret garden-dev/a",
		},
		"to a binding of an identity": {
			&credentialsChange{migration: true, from: secret("a"), to: identity}, "WorkloadIdentity",
		},
		"to other credentials": {&credentialsChange{from: secret("a"), to: secret("b")}, ""},
		"by a user who may not read all Secrets": {&credentialsChange{
			from: secret("a"), to: secret("b"), unreadable: []corev1.ObjectReference{secret("b")},
		}, "get Secret garden-dev/b"},
	} {
		r := request{credentials: tc.change}
		refused(t, name, r.credentialsProblem(), tc.want)
	}
}

func TestManagedIssuer(t *testing.T) {
	managed := func(s *corev1beta1.Shoot) {
		s.Annotations = map[string]string{corev1beta1.AnnotationAuthenticationIssuer: "managed"}
	}
	own := func(s *corev1beta1.Shoot) {
		s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
			ServiceAccountConfig: &corev1beta1.ServiceAccountConfig{Issuer: ptr.To("https://x.org")},
		}
	}
	leaving := func(s *corev1beta1.Shoot) { s.DeletionTimestamp = &metav1.Time{} }
	for name, tc := range map[string]struct {
		request request
		want    string
	}{
		"none":                                {request{shoot: shootOn("")}, ""},
		"where the landscape manages issuers": {request{shoot: shootOn("", managed), issuers: true}, ""},
		"where it has none":                   {request{shoot: shootOn("", managed)}, "manages no issuers"},
		"where it no longer manages issuers":  {request{old: shootOn("", managed), shoot: shootOn("", managed, purpose)}, ""},
		"with one of its own":                 {request{shoot: shootOn("", managed, own), issuers: true}, "must not be set"},
		"with an own issuer later": {
			request{old: shootOn("", managed), shoot: shootOn("", managed, own)}, "must not be set",
		},
		"removed":                            {request{old: shootOn("", managed), shoot: shootOn("")}, "cannot be removed"},
		"removed by a Shoot that is deleted": {request{old: shootOn("", managed), shoot: shootOn("", leaving)}, ""},
	} {
		refused(t, name, tc.request.issuerProblem(), tc.want)
	}
}
