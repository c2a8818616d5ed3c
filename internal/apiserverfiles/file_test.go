package apiserverfiles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func shootWith(change func(*corev1beta1.KubeAPIServerConfig)) *corev1beta1.Shoot {
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{}
	change(shoot.Spec.Kubernetes.KubeAPIServer)
	return shoot
}

func audit(name string) func(*corev1beta1.KubeAPIServerConfig) {
	return func(s *corev1beta1.KubeAPIServerConfig) {
		s.AuditConfig = &corev1beta1.AuditConfig{
			AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: name}},
		}
	}
}

func authenticated(name string, issuers ...string) func(*corev1beta1.KubeAPIServerConfig) {
	return func(s *corev1beta1.KubeAPIServerConfig) {
		s.StructuredAuthentication = &corev1beta1.StructuredAuthentication{ConfigMapName: name}
		if len(issuers) > 0 {
			s.ServiceAccountConfig = &corev1beta1.ServiceAccountConfig{Issuer: &issuers[0], AcceptedIssuers: issuers[1:]}
		}
	}
}

func authorized(name string, authorizers ...string) func(*corev1beta1.KubeAPIServerConfig) {
	return func(s *corev1beta1.KubeAPIServerConfig) {
		s.StructuredAuthorization = &corev1beta1.StructuredAuthorization{ConfigMapName: name}
		for _, authorizer := range authorizers {
			s.StructuredAuthorization.Kubeconfigs = append(s.StructuredAuthorization.Kubeconfigs,
				corev1beta1.AuthorizerKubeconfigReference{AuthorizerName: authorizer, SecretName: "s"})
		}
	}
}

func TestFilesThatChange(t *testing.T) {
	const server = "spec.kubernetes.kubeAPIServer."
	none := func(*corev1beta1.KubeAPIServerConfig) {}
	all := func(s *corev1beta1.KubeAPIServerConfig) {
		audit("a")(s)
		authenticated("b")(s)
		authorized("c", "w")(s)
	}
	for name, tc := range map[string]struct {
		now, before func(*corev1beta1.KubeAPIServerConfig)
		want        []string
	}{
		"none": {none, none, nil},
		"all are new": {all, nil, []string{
			server + "auditConfig.auditPolicy.configMapRef.name a policy",
			server + "structuredAuthentication.configMapName b config.yaml",
			server + "structuredAuthorization.configMapName c config.yaml",
		}},
		"nothing changes": {all, all, nil},
		"all go":          {none, all, nil},
		"a missing name":  {audit(""), nil, nil},
		"another ConfigMap": {
			audit("b"), audit("a"), []string{server + "auditConfig.auditPolicy.configMapRef.name b policy"},
		},
		"another issuer of its own": {
			authenticated("b", "https://a"), authenticated("b"),
			[]string{server + "structuredAuthentication.configMapName b config.yaml"},
		},
		"another kubeconfig": {
			authorized("c", "w", "v"), authorized("c", "w"),
			[]string{server + "structuredAuthorization.configMapName c config.yaml"},
		},
	} {
		var old *corev1beta1.Shoot
		if tc.before != nil {
			old = shootWith(tc.before)
		}
		var got []string
		for _, file := range Changed(shootWith(tc.now), old) {
			got = append(got, file.Path.String()+" "+file.ConfigMap+" "+file.key)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if files := Changed(&corev1beta1.Shoot{}, shootWith(all)); len(files) > 0 {
		t.Errorf("files of a Shoot without settings of its API server: %v", files)
	}
}

// document is a file of one of the three kinds with a body.
func document(apiVersion, kind, body string) *string {
	return ptr.To(fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", apiVersion, kind, body))
}

func policyFile(body string) *string { return document("audit.k8s.io/v1", "Policy", body) }

func authenticationFile(body string) *string {
	return document("apiserver.config.k8s.io/v1", "AuthenticationConfiguration", body)
}

func authorizationFile(body string) *string {
	return document("apiserver.config.k8s.io/v1", "AuthorizationConfiguration", body)
}

const (
	issuer   = "jwt:\n- issuer: {url: 'https://idp.example.org', audiences: [me]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n"
	settings = "timeout: 3s, failurePolicy: Deny, subjectAccessReviewVersion: v1, authorizedTTL: 1s, unauthorizedTTL: 1s"
	webhook  = "authorizers:\n- {type: Webhook, name: w, webhook: {" + settings + "}}\n"
)

// conditions is a webhook with n match conditions.
func conditions(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, `{expression: "request.user != '%d'"},`, i)
	}
	return strings.Replace(webhook, settings, settings+
		", matchConditionSubjectAccessReviewVersion: v1, matchConditions: ["+list.String()+"]", 1)
}

func TestContent(t *testing.T) {
	anonymous := func(text string) *string { return authenticationFile(issuer + "anonymous: " + text + "\n") }
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		shoot   func(*corev1beta1.KubeAPIServerConfig)
		content *string
		refused bool
	}{
		"audit: no key":       {audit("a"), nil, true},
		"audit: empty":        {audit("a"), ptr.To(""), true},
		"audit: no YAML":      {audit("a"), ptr.To("a: b: c"), true},
		"audit: another kind": {audit("a"), document("v1", "ConfigMap", ""), true},
		"audit: a version that is gone": {
			audit("a"), document("audit.k8s.io/v1beta1", "Policy", "rules: [{level: None}]"), true,
		},
		"audit: no rules": {audit("a"), policyFile("rules: []"), true},
		"audit: a good one": {
			audit("a"), policyFile("omitStages: [RequestReceived]\nrules: [{level: Metadata}]"), false,
		},
		"audit: two problems": {
			audit("a"), policyFile("omitStages: [Never]\nrules: [{level: Everything}]"), true,
		},
		"audit: a field of another type": {audit("a"), policyFile("rules: {level: None}"), true},
		"audit: too large": {
			audit("a"), policyFile("rules: [{level: None}]\n" + strings.Repeat("#", maxSize)), true,
		},
		"authentication: no key":     {authenticated("b"), nil, true},
		"authentication: a good one": {authenticated("b"), authenticationFile(issuer), false},
		"authentication: an older version": {
			authenticated("b"), document("apiserver.config.k8s.io/v1beta1", "AuthenticationConfiguration", issuer), false,
		},
		"authentication: no such version": {
			authenticated("b"), document("apiserver.config.k8s.io/v3", "AuthenticationConfiguration", issuer), true,
		},
		"authentication: another kind": {authenticated("b"), authorizationFile(webhook), true},
		"authentication: an unknown field": {
			authenticated("b"), authenticationFile(issuer + "  claimMapping: {}\n"), true,
		},
		"authentication: no audience": {
			authenticated("b"), authenticationFile(strings.Replace(issuer, "me", "", 1)), true,
		},
		"authentication: a wrong expression": {
			authenticated("b"), authenticationFile(issuer + "  claimValidationRules: [{expression: claims.a =}]\n"), true,
		},
		"authentication: the cluster's issuer": {
			authenticated("b", "https://idp.example.org"), authenticationFile(issuer), true,
		},
		"authentication: a former issuer": {
			authenticated("b", "https://x.org", "https://idp.example.org"), authenticationFile(issuer), true,
		},
		"authentication: nobody is anonymous": {authenticated("b"), anonymous("{enabled: false}"), true},
		"authentication: anonymous on one path": {
			authenticated("b"), anonymous("{enabled: true, conditions: [{path: /livez}]}"), true,
		},
		"authentication: anonymous on its paths": {
			authenticated("b"), anonymous("{enabled: true, conditions: [{path: /livez}, {path: /readyz}]}"), false,
		},
		"authentication: anonymous on every path": {authenticated("b"), anonymous("{enabled: true}"), false},
		"authorization: no key":                   {authorized("c", "w"), nil, true},
		"authorization: a good one":               {authorized("c", "w"), authorizationFile(webhook), false},
		"authorization: no authorizers":           {authorized("c", "w"), authorizationFile(""), true},
		"authorization: a name of ours": {
			authorized("c", "rbac"), authorizationFile(strings.Replace(webhook, "name: w", "name: rbac", 1)), true,
		},
		"authorization: room for one more condition":    {authorized("c", "w"), authorizationFile(conditions(63)), false},
		"authorization: no room for one more condition": {authorized("c", "w"), authorizationFile(conditions(64)), true},
		"authorization: a mode of ours": {
			authorized("c", "w"), authorizationFile(webhook + "- {type: RBAC, name: rbac}\n"), true,
		},
		"authorization: no kubeconfig": {authorized("c", "v"), authorizationFile(webhook), true},
		"authorization: no settings": {
			authorized("c", "w"), authorizationFile("authorizers: [{type: Webhook, name: w}]"), true,
		},
		"authorization: its own way to the webhook": {authorized("c", "w"),
			authorizationFile(strings.Replace(webhook, settings,
				settings+", connectionInfo: {type: KubeConfigFile, kubeConfigFile: /k}", 1)), true},
		"authorization: the way to the webhook said": {authorized("c", "w"),
			authorizationFile(strings.Replace(webhook, settings,
				settings+", connectionInfo: {type: KubeConfigFile}", 1)), false},
		"authorization: a wrong expression": {authorized("c", "w"), authorizationFile(strings.Replace(webhook, settings,
			settings+", matchConditions: [{expression: request.x}], matchConditionSubjectAccessReviewVersion: v1", 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			files := Changed(shootWith(tc.shoot), nil)
			if len(files) != 1 {
				t.Fatalf("%d files", len(files))
			}
			data := map[string]string{"other": "x"}
			if tc.content != nil {
				data[files[0].key] = *tc.content
			}
			errs := files[0].Validate(data)
			if tc.refused != (len(errs) > 0) {
				t.Errorf("refused for %v", errs)
			}
			messages[name] = errs.ToAggregate()
		})
	}
	golden.Messages(t, messages)
}

func TestContentDependsOnTheShoot(t *testing.T) {
	egress := authenticationFile(strings.Replace(issuer, "audiences", "egressSelectorType: cluster, audiences", 1))
	older := document("apiserver.config.k8s.io/v1beta1", "AuthenticationConfiguration", issuer)
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		version string
		workers int
		use     Use
		content *string
		refused bool
	}{
		"a tunnel without workers":           {"1.36.3", 0, Authentication, egress, true},
		"a tunnel with workers":              {"1.36.3", 1, Authentication, egress, false},
		"authentication comes later":         {"1.33.1", 0, Authentication, authenticationFile(issuer), true},
		"authentication is there":            {"1.34", 0, Authentication, authenticationFile(issuer), false},
		"authentication by default":          {"1", 0, Authentication, authenticationFile(issuer), false},
		"authentication was there":           {"1.33.1", 0, Authentication, older, false},
		"authentication of an older version": {"1.36.3", 0, Authentication, older, false},
		"a server that is too old":           {"1.28.1", 0, Authentication, older, true},
		"authorization comes later":          {"1.31.0", 0, Authorization, authorizationFile(webhook), true},
		"authorization is there":             {"1.32.0", 0, Authorization, authorizationFile(webhook), false},
		"a policy is always available":       {"1.28.1", 0, AuditPolicy, policyFile("rules: [{level: Metadata}]"), false},
	} {
		shoot := shootWith(func(s *corev1beta1.KubeAPIServerConfig) {
			audit("a")(s)
			authenticated("b")(s)
			authorized("c", "w")(s)
		})
		shoot.Spec.Kubernetes.Version, shoot.Spec.Provider.Workers = tc.version, make([]corev1beta1.Worker, tc.workers)
		for _, file := range Of(shoot, nil) {
			if file.Use != tc.use {
				continue
			}
			content, err := file.Content(map[string]string{file.key: *tc.content})
			if tc.refused != (err != nil) || !tc.refused && content != *tc.content {
				t.Errorf("%s: %q, %v", name, content, err)
			}
			messages[name] = err
		}
	}
	golden.Messages(t, messages)
	if len(messages) != 11 {
		t.Errorf("%d cases have a file", len(messages))
	}
}
