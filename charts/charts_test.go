package charts_test

import (
	"crypto/tls"
	"encoding/base64"
	"path"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/garden/keyrotation"
	"hortus.dev/hortus/internal/pki"
)

func TestGardenRenders(t *testing.T) {
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"caCrt": "ca", "apiserver": map[string]any{"tlsCrt": "crt", "tlsKey": "key", "encryptionSecret": "encryption"},
	}
	objects, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, values)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range objects {
		kinds[o.GetKind()]++
	}
	for kind, want := range map[string]int{"Deployment": 3, "StatefulSet": 1, "APIService": 5, "Namespace": 3} {
		if kinds[kind] != want {
			t.Errorf("the chart has %d of %s, want %d", kinds[kind], kind, want)
		}
	}
	if _, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, nil); err == nil {
		t.Error("the chart generates an encryption key although it cannot know whether there is one")
	}
	values["etcd"] = map[string]any{"replicas": 2}
	_, err = chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, values)
	if err == nil || !strings.Contains(err.Error(), "etcd.replicas: invalid value: 2 (1 or 3)") {
		t.Errorf("an etcd of two members: %v", err)
	}
}

// With Helm the chart creates the Secret with the key once.
func TestGardenKeyIsMadeOnce(t *testing.T) {
	values := map[string]any{"caCrt": "ca"}
	secret := func(name string) *corev1.Secret {
		return newSecret(name, map[string][]byte{"encryption.yaml": []byte("before")})
	}
	render := func(objects ...runtime.Object) *corev1.Secret {
		t.Helper()
		return find[corev1.Secret](t, renderIn(t, values, objects...), keyrotation.SecretName)
	}

	made := render()
	if made == nil || made.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
		t.Fatalf("a new garden gets %+v", made)
	}
	config, err := encryption.Parse([]byte(made.StringData[keyrotation.KeyConfig]))
	if err != nil {
		t.Fatal(err)
	}
	key := config.Keys["key1"]
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 32 {
		t.Errorf("the key has %d bytes (%v), want 32", len(raw), err)
	}
	want, err := encryption.Parse(keyrotation.InitialSecret("garden", key).Data[keyrotation.KeyConfig])
	if err != nil {
		t.Fatal(err)
	}
	if !config.Equal(want) {
		t.Errorf("the chart and the landscape begin with different configurations: %+v, %+v", config.Providers,
			want.Providers)
	}
	if again := render(); again.StringData[keyrotation.KeyConfig] == made.StringData[keyrotation.KeyConfig] {
		t.Error("two gardens have the same key")
	}
	values["apiserver"] = map[string]any{"encryptionKey": "given"}
	if given := render(); !strings.Contains(given.StringData[keyrotation.KeyConfig], "secret: given") {
		t.Errorf("a garden with a given key gets %s", given.StringData[keyrotation.KeyConfig])
	}
	if taken := render(secret("hortus-apiserver")); taken == nil || string(taken.Data[keyrotation.KeyConfig]) != "before" {
		t.Errorf("a garden with its key in the other Secret gets %+v", taken)
	}
	if touched := render(secret(keyrotation.SecretName), secret("hortus-apiserver")); touched != nil {
		t.Errorf("a Secret that is there becomes %+v", touched)
	}
}

// With Helm the chart creates certificates once, the same for all their users.
func TestGardenCertificatesAreMadeOnce(t *testing.T) {
	const name = "hortus-certificates"
	rendered := renderIn(t, nil)
	made := find[corev1.Secret](t, rendered, name)
	if made == nil || made.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
		t.Fatalf("a new garden gets %+v", made)
	}
	ca, err := pki.LoadCA(made.Data["ca.crt"], made.Data["ca.key"], clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	for leaf, host := range map[string]string{
		"apiserver": "hortus-apiserver.garden.svc", "etcd": "hortus-etcd.garden.svc", "etcd-client": "",
	} {
		if _, err := tls.X509KeyPair(made.Data[leaf+".crt"], made.Data[leaf+".key"]); err != nil {
			t.Errorf("%s: %v", leaf, err)
		}
		cert, err := pki.ParseCert(made.Data[leaf+".crt"])
		if err != nil {
			t.Fatal(err)
		}
		if err := cert.CheckSignatureFrom(ca.Cert()); err != nil {
			t.Errorf("%s: %v", leaf, err)
		}
		if host != "" && cert.VerifyHostname(host) != nil {
			t.Errorf("%s is for %v, want %s", leaf, cert.DNSNames, host)
		}
		if member := "hortus-etcd-2.hortus-etcd-peer.garden.svc"; leaf == "etcd" && cert.VerifyHostname(member) != nil {
			t.Errorf("%s is for %v, want %s", leaf, cert.DNSNames, member)
		}
	}
	service := find[apiregistrationv1.APIService](t, rendered, "v1beta1.core.gardener.cloud")
	if string(service.Spec.CABundle) != string(made.Data["ca.crt"]) {
		t.Error("the aggregator trusts another CA")
	}
	again := renderIn(t, nil, newSecret(name, made.Data))
	if touched := find[corev1.Secret](t, again, name); touched != nil {
		t.Errorf("a Secret that is there becomes %+v", touched)
	}
	service = find[apiregistrationv1.APIService](t, again, "v1beta1.core.gardener.cloud")
	if string(service.Spec.CABundle) != string(made.Data["ca.crt"]) {
		t.Error("after an upgrade the aggregator trusts another CA")
	}
}

func newSecret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name}, Data: data,
	}
}

// renderIn renders the garden's chart as Helm does in a cluster with these objects.
func renderIn(t *testing.T, given map[string]any, objects ...runtime.Object) []*unstructured.Unstructured {
	t.Helper()
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "garden", Namespace: "garden"}
	values, err := chartutil.ToRenderValues(c, given, release, nil)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	there := cluster{fake.NewSimpleDynamicClient(scheme.Scheme, append(objects, namespace)...)}
	files, err := engine.RenderWithClientProvider(c, values, there)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for name, content := range files {
		if path.Ext(name) != ".yaml" {
			continue
		}
		rendered, err := chart.Decode([]byte(content))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rendered...)
	}
	return all
}

// find returns the object of a kind with a name, or nil.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, name string) *T {
	t.Helper()
	into := new(T)
	for _, o := range objects {
		if o.GetName() != name || o.GetKind() != reflect.TypeFor[T]().Name() {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			t.Fatal(err)
		}
		return into
	}
	return nil
}

// cluster has the objects that a chart finds with Helm's lookup.
type cluster struct{ dynamic.Interface }

func (c cluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource := corev1.SchemeGroupVersion.WithResource(strings.ToLower(kind) + "s")
	return c.Resource(resource), kind != "Namespace", nil
}
