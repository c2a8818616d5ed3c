package kubeapiserver

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func values() Values {
	return Values{
		Namespace: "shoot--dev--a", Image: "registry.k8s.io/kube-apiserver:v1.36.3", Replicas: 1, AdvertiseIP: "10.0.0.7",
		ExternalHost: "api.a.dev.local.hortus.dev", ServiceCIDR: "100.64.0.0/16", Issuer: "https://api.a.dev.internal.local.hortus.dev",
		Workers: true,
		Secrets: Secrets{
			Server: "kube-apiserver-1", ClientCABundle: "ca-client-bundle-1", EtcdCABundle: "ca-etcd-bundle-1", EtcdClient: "etcd-client-1",
			FrontProxyCABundle: "ca-front-proxy-bundle-1", Aggregator: "kube-aggregator-1", ServiceAccountKey: "service-account-key-1",
			KeyBundle: "service-account-key-bundle-1", KubeletCABundle: "ca-kubelet-bundle-1", KubeletClient: "kube-apiserver-kubelet-1",
			VPNCABundle: "ca-vpn-bundle-1", VPNClient: "kube-apiserver-http-proxy-1",
		},
		EncryptionKeys: []EncryptionKey{{Name: "key1", Secret: "c2VjcmV0"}},
	}
}

func TestRender(t *testing.T) {
	workerless := values()
	workerless.Workers, workerless.Secrets.KubeletCABundle, workerless.Secrets.KubeletClient = false, "", ""

	configured := values()
	configured.Replicas = 3
	configured.AcceptedIssuers = []string{"https://old.example"}
	configured.EncryptedResources, configured.EncryptionProvider = []string{"configmaps"}, "secretbox"
	configured.EncryptionKeys = []EncryptionKey{{"key2", "bmV3"}, {"key1", "b2xk"}}
	configured.Authentication = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {url: https://idp.example, audiences: [me]}\n"
	configured.Config = &corev1beta1.KubeAPIServerConfig{
		KubernetesConfig: corev1beta1.KubernetesConfig{FeatureGates: map[string]bool{"B": false, "A": true}},
		AdmissionPlugins: []corev1beta1.AdmissionPlugin{
			{Name: "PodNodeSelector", Config: &runtime.RawExtension{Raw: []byte(`{"podNodeSelectorPluginConfig":{"clusterDefaultNodeSelector":"a=b"}}`)}},
			{Name: "Priority", Disabled: ptr.To(true)},
		},
		RuntimeConfig:                       map[string]bool{"batch/v2alpha1": true},
		Requests:                            &corev1beta1.APIServerRequests{MaxNonMutatingInflight: ptr.To(int32(400)), MaxMutatingInflight: ptr.To(int32(200))},
		EventTTL:                            &metav1.Duration{Duration: time.Hour},
		Logging:                             &corev1beta1.APIServerLogging{Verbosity: ptr.To(int32(2))},
		DefaultNotReadyTolerationSeconds:    ptr.To(int64(300)),
		DefaultUnreachableTolerationSeconds: ptr.To(int64(300)),
		APIAudiences:                        []string{"kubernetes", "mine"},
		ServiceAccountConfig:                &corev1beta1.ServiceAccountConfig{ExtendTokenExpiration: ptr.To(false), MaxTokenExpiration: &metav1.Duration{Duration: 720 * time.Hour}},
		WatchCacheSizes:                     &corev1beta1.WatchCacheSizes{Resources: []corev1beta1.ResourceWatchCacheSize{{Resource: "secrets", CacheSize: 500}, {APIGroup: ptr.To("apps"), Resource: "deployments", CacheSize: 10}}},
	}
	for name, v := range map[string]Values{"with-workers": values(), "workerless": workerless, "configured": configured} {
		t.Run(name, func(t *testing.T) {
			o, err := Render(v)
			if err != nil {
				t.Fatal(err)
			}
			golden.Objects(t, name, o.ConfigMap, o.EncryptionSecret, o.Deployment)
		})
	}
}

func TestRenderRefusesUnreadableAuthentication(t *testing.T) {
	v := values()
	v.Authentication = "jwt: ["
	if _, err := Render(v); err == nil {
		t.Error("Render() accepted broken YAML")
	}
}

func TestServiceAndRoute(t *testing.T) {
	golden.Objects(t, "service", Service("shoot--dev--a"))
	route := Route("shoot--dev--a", "hortus-gateway", "gateway", []string{"api.a.dev.local.hortus.dev", "api.a.dev.internal.local.hortus.dev"})
	route.APIVersion, route.Kind = "gateway.networking.k8s.io/v1", "TLSRoute"
	golden.Objects(t, "route", route)
}
