package managedresource

import (
	"bytes"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// testMapper knows the built-in kinds used in tests.
func testMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(scheme.Scheme.PrioritizedVersionsAllGroups())
	for _, kind := range []string{"ConfigMap", "Secret", "Service", "ServiceAccount", "Pod", "PersistentVolumeClaim"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	return m
}

// testMapperApps also knows the kinds of workloads.
func testMapperApps() meta.RESTMapper {
	m := testMapper().(*meta.DefaultRESTMapper)
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "Prometheus"},
		meta.RESTScopeNamespace)
	m.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	return m
}

func secret(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func compressed(text string) string {
	var b bytes.Buffer
	w := brotli.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct {
		data    map[string]string
		want    []string
		wantErr string
	}{
		"keys in order, several documents": {
			data: map[string]string{
				"b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: three}\n",
				"a.yaml": "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: x}\n---\n# nothing\n---\n{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"two\"}}\n"},
			want: []string{"ConfigMap x/one", "Namespace two", "ConfigMap default/three"},
		},
		"cluster-wide kinds lose their namespace": {
			data: map[string]string{"a": "{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: b}}"},
			want: []string{"Namespace a"},
		},
		"compressed": {
			data: map[string]string{"a.yaml.br": compressed("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")},
			want: []string{"ConfigMap default/a"},
		},
		"lists": {
			data: map[string]string{
				"a": "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: Secret, metadata: {name: b}}]}",
			},
			want: []string{"ConfigMap default/a", "Secret default/b"},
		},
		"the scope of a kind that the same ManagedResource defines": {
			data: map[string]string{
				"a": "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: foos.x}, spec: {group: x, scope: Cluster, names: {kind: Foo}}}\n---\n{apiVersion: x/v1, kind: Foo, metadata: {name: f, namespace: z}}",
			},
			want: []string{"CustomResourceDefinition foos.x", "Foo f"},
		},
		"an unknown kind keeps its namespace": {
			data: map[string]string{
				"a": "{apiVersion: x/v1, kind: Foo, metadata: {name: f, namespace: z}}\n---\n{apiVersion: x/v1, kind: Foo, metadata: {name: g}}",
			},
			want: []string{"Foo z/f", "Foo g"},
		},
		"a broken document does not hide others": {
			data: map[string]string{
				"a": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}", "c.br": "not compressed",
			},
			want:    []string{"ConfigMap default/a", "ConfigMap default/b"},
			wantErr: `key "a" of Secret "s": document 1`,
		},
		"no name": {data: map[string]string{"a": "{apiVersion: v1, kind: ConfigMap}"}, wantErr: "ConfigMap without a name"},
		"no kind": {data: map[string]string{"a": "{metadata: {name: x}}"}, wantErr: "apiVersion or kind is missing"},
		"twice": {data: map[string]string{
			"a": "{apiVersion: v1, kind: Secret, metadata: {name: a}}",
			"b": "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: default}}",
		}, want: []string{"Secret default/a"}, wantErr: "Secret default/a is given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := decode([]*corev1.Secret{secret("s", tc.data)}, testMapper())
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.ref.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decode() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeBoundsDecompression(t *testing.T) {
	bomb := compressed(strings.Repeat("# aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", maxDecompressed/50))
	if _, err := decodeValue("x.br", []byte(bomb)); err == nil || !strings.Contains(err.Error(), "when decompressed") {
		t.Errorf("error %v, want a refusal", err)
	}
}

func FuzzDecodeValue(f *testing.F) {
	f.Add("a", []byte("{apiVersion: v1, kind: List, items: [{apiVersion: v1}]}\n---\nx"))
	f.Add("a.br", []byte(compressed("apiVersion: v1")))
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		objects, _ := decodeValue(key, data)
		for _, u := range objects {
			if u.GetKind() == "" || u.GetName() == "" {
				t.Errorf("incomplete object %v", u.Object)
			}
		}
	})
}
