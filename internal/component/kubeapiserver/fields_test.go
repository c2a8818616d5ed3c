package kubeapiserver

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// notRendered are the fields of the configuration that the rendering does not read itself, with everything below them.
var notRendered = map[string]string{
	"admissionPlugins.kubeconfigSecretName": "no effect: the API warns",
	"auditConfig":                           "its file is in Values.AuditPolicy",
	"autoscaling":                           "no effect: the API warns",
	"encryptionConfig":                      "Values.Encryption is made from it",
	"serviceAccountConfig.acceptedIssuers":  "in Values.AcceptedIssuers",
	"serviceAccountConfig.issuer":           "in Values.Issuer",
	"structuredAuthentication":              "its file is in Values.Authentication",
	"structuredAuthorization":               "its file is in Values.Authorization",
}

// TestEveryFieldIsRendered: each field of a Shoot's configuration changes what is rendered, unless it is listed above.
func TestEveryFieldIsRendered(t *testing.T) {
	all := renderedWith(t, everything())
	effect := map[string]bool{} // By path: whether the server is another one without the field.
	for i, path := range fieldsOf(reflect.ValueOf(everything()), "") {
		config := everything()
		number := 0
		walk(reflect.ValueOf(config), "", func(_ string, field reflect.Value) {
			if number == i {
				field.SetZero()
			}
			number++
		})
		effect[path] = effect[path] || !bytes.Equal(all, renderedWith(t, config))
	}
	used := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(effect)) {
		exception := ""
		for listed := range notRendered {
			if path == listed || strings.HasPrefix(path, listed+".") {
				exception, used[listed] = notRendered[listed], true
			}
		}
		switch {
		case exception == "" && !effect[path]:
			t.Errorf("%s has no effect: render it, or list it with the reason", path)
		case exception != "" && effect[path]:
			t.Errorf("%s has an effect, but is listed: %s", path, exception)
		}
	}
	for path := range notRendered {
		if !used[path] {
			t.Errorf("%s is listed, but there is no such field", path)
		}
	}
}

// everything is a configuration in which every field is set.
func everything() *corev1beta1.KubeAPIServerConfig {
	c := &corev1beta1.KubeAPIServerConfig{}
	fill(reflect.ValueOf(c).Elem())
	// Only a plugin that is on has a configuration.
	on, off := c.AdmissionPlugins[0], c.AdmissionPlugins[0]
	on.Disabled, on.Config = nil, &runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}
	off.Name, off.Config, off.Disabled = "y", nil, ptr.To(true)
	c.AdmissionPlugins = []corev1beta1.AdmissionPlugin{on, off}
	return c
}

func renderedWith(t *testing.T, c *corev1beta1.KubeAPIServerConfig) []byte {
	t.Helper()
	v := values()
	v.Config = c
	o, err := Render(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fill sets every field to a value that is not its zero value; lists and maps get one element.
func fill(v reflect.Value) {
	if !v.CanSet() { // Inside of types of Kubernetes.
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}

// walk visits the fields of the API's types that have no such fields below them, with their paths, always in the same
// order. The elements of a list have the path of the list.
func walk(v reflect.Value, path string, visit func(path string, field reflect.Value)) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil() && ofAPI(v.Type().Elem()):
		walk(v.Elem(), path, visit)
	case v.Kind() == reflect.Slice && ofAPI(v.Type().Elem()):
		for i := range v.Len() {
			walk(v.Index(i), path, visit)
		}
	case ofAPI(v.Type()):
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			below := path
			if name != "" { // Otherwise its fields are those of the parent.
				below = strings.TrimPrefix(path+"."+name, ".")
			}
			walk(v.Field(i), below, visit)
		}
	default:
		visit(path, v)
	}
}

func fieldsOf(v reflect.Value, path string) []string {
	var paths []string
	walk(v, path, func(path string, _ reflect.Value) { paths = append(paths, path) })
	return paths
}

// ofAPI reports whether a type is a struct of Hortus' own API, whose fields are looked at one by one.
func ofAPI(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[corev1beta1.Shoot]().PkgPath()
}
