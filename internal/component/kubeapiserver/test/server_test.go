// Package test starts a real kube-apiserver with the files of a user, as they are rendered for a Shoot.
package test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/env"
)

const (
	policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, verbs: [create], resources: [{resources: [configmaps]}]}
`
	// %s are the issuer's URL and its CA, indented.
	authentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [shoot]
    certificateAuthority: |
%s
  claimMappings:
    username: {claim: sub, prefix: "idp:"}
`
	authorization = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: mine
  webhook: {timeout: 10s, failurePolicy: Deny, subjectAccessReviewVersion: v1, authorizedTTL: 1ms, unauthorizedTTL: 1ms}
`
)

// scheduler is one of the system's own users.
const scheduler = "system:kube-scheduler"

func TestServerActsOnTheFilesOfItsUser(t *testing.T) {
	ca, err := pki.NewCA("user", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	idp, hook, out, log := newIssuer(t, ca), newWebhook(t, ca), newTunnelServer(t), &output{}
	e := env.Start(t, env.WithKubeAPIServer(func(s *envtest.APIServer) {
		s.Out = log
		s.Configure().Disable("authorization-mode")
		for name, value := range rendered(t, idp, hook, ca, out) {
			s.Configure().Set(name, value)
		}
	}))
	ctx := t.Context()
	allowReaders(t, e)
	withToken := func(token string) client.Client {
		config := rest.AnonymousClientConfig(e.Config)
		config.BearerToken = token
		c, err := client.New(config, client.Options{Scheme: e.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}

	t.Run("a token of the issuer is accepted", func(t *testing.T) {
		review := &authenticationv1.SelfSubjectReview{}
		env.Eventually(t, "the server has the issuer's keys", func() (bool, error) {
			err := withToken(idp.token(t, idp.url, "anna")).Create(ctx, review)
			return err == nil, err
		})
		if got := review.Status.UserInfo.Username; got != "idp:anna" {
			t.Errorf("the server authenticates Anna as %q", got)
		}
	})
	t.Run("another token is not", func(t *testing.T) {
		forged := newIssuer(t, ca).token(t, idp.url, "anna")
		if err := withToken(forged).Create(ctx, &authenticationv1.SelfSubjectReview{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("a token with a wrong signature: %v", err)
		}
	})
	t.Run("webhooks that extensions offer are called, and no others", func(t *testing.T) { callsOffered(t, e, ca, out) })
	t.Run("strangers get to the probes only", func(t *testing.T) {
		for path, want := range map[string]int{
			"/livez": http.StatusOK, "/readyz": http.StatusOK, "/version": http.StatusUnauthorized,
		} {
			if got := anonymous(t, e.Config, path); got != want {
				t.Errorf("%s: status %d, want %d", path, got, want)
			}
		}
	})
	t.Run("the webhook allows requests without a role", func(t *testing.T) {
		m := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-anna"},
			Data:       map[string]string{"a": "kept in the log"},
		}
		if err := withToken(idp.token(t, idp.url, "anna")).Create(ctx, m); err != nil {
			t.Errorf("Anna, whom the webhook allows everything: %v", err)
		}
		if err := withToken(idp.token(t, idp.url, "otto")).Get(ctx, client.ObjectKeyFromObject(m),
			m); !apierrors.IsForbidden(err) {
			t.Errorf("Otto, without any permissions: %v", err)
		}
	})
	t.Run("the webhook denies requests that roles allow", func(t *testing.T) {
		if err := e.ClientAs(t, "eve", "readers").List(ctx, &corev1.ConfigMapList{}); !apierrors.IsForbidden(err) {
			t.Errorf("Eve, whom the webhook forbids everything: %v", err)
		}
		if err := e.ClientAs(t, "emil", "readers").List(ctx, &corev1.ConfigMapList{}); err != nil {
			t.Errorf("Emil, about whom the webhook has no opinion: %v", err)
		}
	})
	t.Run("the webhook is not called for the system", func(t *testing.T) {
		if err := e.ClientAs(t, scheduler).List(ctx, &corev1.NodeList{}); err != nil {
			t.Errorf("the scheduler, of whom the webhook knows nothing: %v", err)
		}
		for _, user := range []string{"system:node:a", "system:serviceaccount:kube-system:a"} {
			group := "system:nodes"
			if strings.Contains(user, "serviceaccount") {
				group = "system:serviceaccounts:kube-system"
			}
			if err := e.ClientAs(t, user, group).List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
				t.Errorf("%s may list all secrets: %v", user, err)
			}
		}
		asked := slices.Compact(slices.Sorted(slices.Values(hook.asked())))
		if want := []string{"emil", "eve", "idp:anna", "idp:otto"}; !slices.Equal(asked, want) {
			t.Errorf("the webhook was called for %q, want %q", asked, want)
		}
	})
	t.Run("both are reached through the tunnel server", func(t *testing.T) {
		for _, url := range []string{idp.url, hook.url} {
			if !out.reached(url) {
				t.Errorf("%s was not", url)
			}
		}
	})
	t.Run("the audit policy is applied", func(t *testing.T) {
		env.Eventually(t, "an event of the ConfigMap in the log", func() (bool, error) {
			return slices.ContainsFunc(log.events(t), func(event auditv1.Event) bool {
				return event.User.Username == "idp:anna" && event.ObjectRef.Name == "of-anna" &&
					event.Level == auditv1.LevelRequest &&
					strings.Contains(string(event.RequestObject.Raw), "kept in the log")
			}), nil
		})
		for _, event := range log.events(t) {
			if event.ObjectRef == nil || event.ObjectRef.Resource != "configmaps" || event.Verb != "create" {
				t.Errorf("logged against the policy: %s %+v", event.Verb, event.ObjectRef)
			}
		}
	})
	t.Run("a webhook that does not answer affects only the user", func(t *testing.T) {
		hook.server.Close()
		if err := e.ClientAs(t, "emil", "readers").List(ctx, &corev1.ConfigMapList{}); err == nil {
			t.Error("Emil may read without the webhook, which is to decide about him")
		}
		if err := e.ClientAs(t, scheduler).List(ctx, &corev1.NodeList{}); err != nil {
			t.Errorf("the scheduler: %v", err)
		}
		for _, path := range []string{"/livez", "/readyz"} {
			if got := anonymous(t, e.Config, path); got != http.StatusOK {
				t.Errorf("%s: status %d", path, got)
			}
		}
	})
}
