package kubeapiserver

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/golden"
)

func values() Values {
	return Values{
		Size:      component.Small,
		Namespace: "shoot--dev--a", Image: "registry.k8s.io/kube-apiserver:v1.36.3", Replicas: 1, AdvertiseIP: "10.0.0.7",
		ExternalHost: "api.a.dev.local.hortus.dev", ServiceCIDR: "100.64.0.0/16",
		Issuer:  "https://api.a.dev.internal.local.hortus.dev",
		Workers: true,
		Secrets: Secrets{
			Server: "kube-apiserver-1", ClientCABundle: "ca-client-bundle-1", EtcdCABundle: "ca-etcd-bundle-1",
			EtcdClient:         "etcd-client-1",
			FrontProxyCABundle: "ca-front-proxy-bundle-1", Aggregator: "kube-aggregator-1",
			ServiceAccountKey: "service-account-key-1",
			KeyBundle:         "service-account-key-bundle-1", KubeletCABundle: "ca-kubelet-bundle-1",
			KubeletClient: "kube-apiserver-kubelet-1",
			VPNCABundle:   "ca-vpn-bundle-1", VPNClient: "kube-apiserver-http-proxy-1",
		},
		Encryption: encryption.Target{
			Resources: []string{"secrets"}, Writer: encryption.Provider{Cipher: encryption.AESCBC, Key: "key1"},
			Keys: map[string]string{"key1": "c2VjcmV0"},
		}.Config(),
	}
}

func TestRender(t *testing.T) {
	workerless := values()
	workerless.Workers, workerless.Secrets.KubeletCABundle, workerless.Secrets.KubeletClient = false, "", ""

	configured := values()
	configured.Replicas = 3
	configured.AcceptedIssuers = []string{"https://old.example"}
	configured.Encryption = encryption.Target{
		Resources: []string{"configmaps", "secrets"}, Writer: encryption.Provider{Cipher: encryption.Secretbox, Key: "key2"},
		Keep: []encryption.Provider{{Cipher: encryption.Secretbox, Key: "key1"}},
		Keys: map[string]string{"key1": "b2xk", "key2": "bmV3"},
	}.Config()
	configured.Authentication = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {url: https://idp.example, audiences: [me]}\n"
	configured.AuditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n"
	configured.Authorization = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Webhook, name: plain, webhook: {timeout: 3s, failurePolicy: Deny, subjectAccessReviewVersion: v1}}
- type: Webhook
  name: b.example
  webhook:
    timeout: 5s
    failurePolicy: NoOpinion
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    matchConditions: [{expression: "request.user != 'me'"}]
    connectionInfo: {type: KubeConfigFile}
`
	configured.AuthorizationKubeconfigs = map[string][]byte{
		"plain": []byte("kubeconfig of plain"), "b.example": []byte("kubeconfig of b"),
	}
	configured.Config = &corev1beta1.KubeAPIServerConfig{
		KubernetesConfig: corev1beta1.KubernetesConfig{FeatureGates: map[string]bool{"B": false, "A": true}},
		AdmissionPlugins: []corev1beta1.AdmissionPlugin{
			{Name: "PodNodeSelector", Config: &runtime.RawExtension{
				Raw: []byte(`{"podNodeSelectorPluginConfig":{"clusterDefaultNodeSelector":"a=b"}}`),
			}},
			{Name: "Priority", Disabled: ptr.To(true)},
		},
		RuntimeConfig: map[string]bool{"batch/v2alpha1": true},
		Requests: &corev1beta1.APIServerRequests{
			MaxNonMutatingInflight: ptr.To(int32(400)), MaxMutatingInflight: ptr.To(int32(200)),
		},
		EventTTL:                            &metav1.Duration{Duration: time.Hour},
		Logging:                             &corev1beta1.APIServerLogging{Verbosity: ptr.To(int32(2))},
		DefaultNotReadyTolerationSeconds:    ptr.To(int64(300)),
		DefaultUnreachableTolerationSeconds: ptr.To(int64(300)),
		APIAudiences:                        []string{"kubernetes", "mine"},
		ServiceAccountConfig: &corev1beta1.ServiceAccountConfig{
			ExtendTokenExpiration: ptr.To(false), MaxTokenExpiration: &metav1.Duration{Duration: 720 * time.Hour},
		},
		WatchCacheSizes: &corev1beta1.WatchCacheSizes{
			Resources: []corev1beta1.ResourceWatchCacheSize{
				{Resource: "secrets", CacheSize: 500}, {APIGroup: ptr.To("apps"), Resource: "deployments", CacheSize: 10},
			},
		},
	}
	for name, v := range map[string]Values{"with-workers": values(), "workerless": workerless, "configured": configured} {
		t.Run(name, func(t *testing.T) {
			o, err := Render(v)
			if err != nil {
				t.Fatal(err)
			}
			golden.Objects(t, name, o.All()...)
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	webhook := "authorizers: [{type: Webhook, name: a, webhook: {timeout: 3s}}]"
	kubeconfigs := map[string][]byte{"a": []byte("k")}
	for name, change := range map[string]func(*Values){
		"authentication that is no YAML":   func(v *Values) { v.Authentication = "jwt: [" },
		"authorization that is no YAML":    func(v *Values) { v.Authorization = "authorizers: [" },
		"an authorizer that is no webhook": func(v *Values) { v.Authorization = "authorizers: [{type: RBAC, name: a}]" },
		"a webhook without a kubeconfig":   func(v *Values) { v.Authorization = webhook },
		"a server without encryption keys": func(v *Values) { v.Encryption = encryption.Config{} },
		"authorizers that are not a webhook": func(v *Values) {
			v.Authorization, v.AuthorizationKubeconfigs = "authorizers: [a]", kubeconfigs
		},
	} {
		v := values()
		change(&v)
		if _, err := Render(v); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	v := values()
	v.Authorization, v.AuthorizationKubeconfigs = webhook, kubeconfigs
	if _, err := Render(v); err != nil {
		t.Errorf("a webhook with a kubeconfig: %v", err)
	}
}

// A user's file that already has the condition would otherwise have it twice, which the server rejects.
func TestConditionIsThereOnce(t *testing.T) {
	webhook := map[string]any{}
	addCondition(webhook, "a")
	addCondition(webhook, "a")
	addCondition(webhook, "b")
	want := map[string]any{
		"matchConditionSubjectAccessReviewVersion": "v1",
		"matchConditions": []any{
			map[string]any{"expression": "b"}, map[string]any{"expression": "a"},
		},
	}
	if diff := cmp.Diff(want, webhook); diff != "" {
		t.Errorf("webhook (-want +got):\n%s", diff)
	}
}

// Pods of an older configuration must not see the newer one before their time.
func TestConfigurationIsNeverChanged(t *testing.T) {
	name := func(change func(*Values)) (string, string) {
		v := values()
		v.Authorization = "authorizers: [{type: Webhook, name: a, webhook: {timeout: 3s}}]"
		v.AuthorizationKubeconfigs = map[string][]byte{"a": []byte("k")}
		change(&v)
		o, err := Render(v)
		if err != nil {
			t.Fatal(err)
		}
		return o.ConfigMap.Name, o.AuthorizationSecret.Name
	}
	configMap, secret := name(func(*Values) {})
	for text, tc := range map[string]struct {
		change            func(*Values)
		configMap, secret bool
	}{
		"the same":           {func(*Values) {}, false, false},
		"more replicas":      {func(v *Values) { v.Replicas = 3 }, false, false},
		"another policy":     {func(v *Values) { v.AuditPolicy = "rules: []" }, true, false},
		"another kubeconfig": {func(v *Values) { v.AuthorizationKubeconfigs["a"] = []byte("l") }, false, true},
		"another webhook": {
			func(v *Values) { v.Authorization = strings.Replace(v.Authorization, "3s", "4s", 1) }, true, false,
		},
		"another name for it": {func(v *Values) {
			v.Authorization, v.AuthorizationKubeconfigs = strings.Replace(v.Authorization, "name: a", "name: b", 1),
				map[string][]byte{"b": []byte("k")}
		}, true, true},
	} {
		c, s := name(tc.change)
		if (c != configMap) != tc.configMap || (s != secret) != tc.secret {
			t.Errorf("%s: ConfigMap %s after %s, Secret %s after %s", text, c, configMap, s, secret)
		}
	}
}

func TestServiceAndRoute(t *testing.T) {
	golden.Objects(t, "service", Service("shoot--dev--a", "240.1.2.3"))
	route := Route("shoot--dev--a", "hortus-gateway", "gateway",
		[]string{"api.a.dev.local.hortus.dev", "api.a.dev.internal.local.hortus.dev"})
	route.APIVersion, route.Kind = "gateway.networking.k8s.io/v1", "TLSRoute"
	golden.Objects(t, "route", route)
}

// Every issuer of tokens is reached through the tunnel server, even if it has a selector or an unusual form.
func TestIssuersAreReachedThroughTheTunnelServer(t *testing.T) {
	for name, tc := range map[string]struct{ jwt, want string }{
		"no selector": {
			"[{issuer: {url: 'https://a'}}]", "[{issuer: {egressSelectorType: controlplane, url: 'https://a'}}]",
		},
		"an empty selector":   {"[{issuer: {egressSelectorType: ''}}]", "[{issuer: {egressSelectorType: controlplane}}]"},
		"the user's selector": {"[{issuer: {egressSelectorType: cluster}}]", "[{issuer: {egressSelectorType: cluster}}]"},
		"two issuers": {
			"[{issuer: {url: a}}, {issuer: {url: b, egressSelectorType: cluster}}]",
			"[{issuer: {egressSelectorType: controlplane, url: a}}, {issuer: {egressSelectorType: cluster, url: b}}]",
		},
		"no issuer":       {"[{}]", "[{}]"},
		"no list":         {"{}", "{}"},
		"a text as entry": {"[a]", "[a]"},
	} {
		v := values()
		v.Authentication = "kind: AuthenticationConfiguration\njwt: " + tc.jwt
		text, err := authenticationConfiguration(v)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte("jwt: "+tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want["jwt"], got["jwt"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Users cannot disable the feature gate of the selector.
func TestIssuerEgressStaysOn(t *testing.T) {
	for name, tc := range map[string]struct{ gates, want map[string]bool }{
		"nothing about it": {map[string]bool{"A": false}, map[string]bool{"A": false}},
		"switched off": {
			map[string]bool{"A": false, gateIssuerEgress: false}, map[string]bool{"A": false, gateIssuerEgress: true},
		},
		"all switched off": {map[string]bool{"AllBeta": false}, map[string]bool{"AllBeta": false, gateIssuerEgress: true}},
	} {
		if diff := cmp.Diff(tc.want, withIssuerEgress(tc.gates)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	gates := map[string]bool{gateIssuerEgress: false}
	if withIssuerEgress(gates); gates[gateIssuerEgress] {
		t.Error("the Shoot was changed")
	}
}

// The API server connects directly only to etcd, with and without nodes.
func TestOnlyEtcdIsReachedDirectly(t *testing.T) {
	var config struct {
		EgressSelections []struct {
			Name       string
			Connection struct {
				ProxyProtocol string
				Transport     struct{ TCP struct{ URL string } }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(egressSelectorConfiguration()), &config); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range config.EgressSelections {
		got[s.Name] = s.Connection.ProxyProtocol + " " + s.Connection.Transport.TCP.URL
	}
	want := map[string]string{
		"cluster":      "HTTPConnect https://vpn-seed-server:9443",
		"controlplane": "HTTPConnect https://vpn-seed-server:9444",
		"etcd":         "Direct ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("egress (-want +got):\n%s", diff)
	}
}
