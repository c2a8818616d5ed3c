package charts_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/encryption"
	"hortus.dev/hortus/internal/garden/keyrotation"
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
	for kind, want := range map[string]int{"Deployment": 3, "StatefulSet": 1, "APIService": 5, "Namespace": 4} {
		if kinds[kind] != want {
			t.Errorf("the chart has %d of %s, want %d", kinds[kind], kind, want)
		}
	}
	if _, err := chart.Render(c, chart.Release{Name: "garden", Namespace: "garden"}, nil); err == nil {
		t.Error("the chart makes an encryption key where it can't see whether there is one")
	}
}

// With Helm the chart makes the Secret with the key once.
func TestGardenKeyIsMadeOnce(t *testing.T) {
	c, err := chart.LoadFS(charts.FS, "garden")
	if err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "garden", Namespace: "garden"}
	values, err := chartutil.ToRenderValues(c, map[string]any{"caCrt": "ca"}, release, nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name},
			Data:       map[string][]byte{"encryption.yaml": []byte("before")}}
	}
	render := func(objects ...runtime.Object) *corev1.Secret {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		objects = append(objects, namespace)
		files, err := engine.RenderWithClientProvider(c, values,
			cluster{fake.NewSimpleDynamicClient(scheme.Scheme, objects...)})
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := chart.Decode([]byte(files["garden/templates/apiserver.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range rendered {
			if o.GetName() == keyrotation.SecretName {
				made := &corev1.Secret{}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, made); err != nil {
					t.Fatal(err)
				}
				return made
			}
		}
		return nil
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
	values["Values"].(chartutil.Values)["apiserver"].(map[string]any)["encryptionKey"] = "given"
	if given := render(); !strings.Contains(given.StringData[keyrotation.KeyConfig], "secret: given") {
		t.Errorf("a garden that is given its key gets %s", given.StringData[keyrotation.KeyConfig])
	}
	if taken := render(secret("hortus-apiserver")); taken == nil || string(taken.Data[keyrotation.KeyConfig]) != "before" {
		t.Errorf("a garden with its key in the other Secret gets %+v", taken)
	}
	if touched := render(secret(keyrotation.SecretName), secret("hortus-apiserver")); touched != nil {
		t.Errorf("a Secret that is there becomes %+v", touched)
	}
}

// cluster is what a chart finds with Helm's lookup.
type cluster struct{ dynamic.Interface }

func (c cluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource := corev1.SchemeGroupVersion.WithResource(strings.ToLower(kind) + "s")
	return c.Resource(resource), kind != "Namespace", nil
}
