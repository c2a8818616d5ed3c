package controllerinstallation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1v1 "hortus.dev/hortus/api/core/v1"
)

func TestValuesOfOtherObjects(t *testing.T) {
	garden := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "login"},
			Data:       map[string][]byte{"user": []byte("ali"), "word": []byte("open \"sesame\"\n"), "raw": {0xff}},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "other"}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "places"}, Data: map[string]string{"url": "https://x"},
		},
	).Build()
	ref := func(name, kind, object string) corev1v1.NamedResourceReference {
		return corev1v1.NamedResourceReference{Name: name,
			ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: object}}
	}
	login, places := ref("login", "Secret", "login"), ref("places", "ConfigMap", "places")
	for name, tc := range map[string]struct {
		resources    []corev1v1.NamedResourceReference
		values       string
		want, public map[string]any
		err          string
	}{
		"none": {values: `{"a": "{{ .x }}"}`, want: map[string]any{"a": "{{ .x }}"}},
		"of a Secret and a ConfigMap": {
			resources: []corev1v1.NamedResourceReference{login, places},
			values: `{"a": {"b": ["{{ .resources.login.data.word }}", 7]}, "c": "{{.resources.login.data.user}}@` +
				`{{ .resources.places.data.url }}", "d": true}`,
			want: map[string]any{"a": map[string]any{"b": []any{"open \"sesame\"\n", float64(7)}},
				"c": "ali@https://x", "d": true},
			public: map[string]any{"a": map[string]any{"b": []any{"value-of-login-word", float64(7)}},
				"c": "value-of-login-user@https://x", "d": true},
		},
		"of a ConfigMap": {
			resources: []corev1v1.NamedResourceReference{login, places}, values: `{"a": "{{ .resources.places.data.url }}"}`,
			want: map[string]any{"a": "https://x"},
		},
		"no values": {resources: []corev1v1.NamedResourceReference{login}, want: map[string]any{}},
		"a missing key": {
			resources: []corev1v1.NamedResourceReference{login}, values: `{"a": "{{ .resources.login.data.none }}"}`,
			err: `helm.values: resource "login" has no key "none"`,
		},
		"a missing resource": {
			resources: []corev1v1.NamedResourceReference{login}, values: `{"a": "{{ .resources.places.data.url }}"}`,
			err: `helm.values: resources has no "places"`,
		},
		"a value that is no text": {
			resources: []corev1v1.NamedResourceReference{login}, values: `{"a": "{{ .resources.login.data.raw }}"}`,
			err: `helm.values: resource "login", key "raw": the value is no text`,
		},
		"an object of another namespace": {
			resources: []corev1v1.NamedResourceReference{ref("other", "Secret", "other")},
			err:       `resource "other" of ControllerDeployment "d": read Secret garden/other: secrets "other" not found`,
		},
		"an object of another kind": {
			resources: []corev1v1.NamedResourceReference{ref("pod", "Pod", "x")},
			err:       `resource "pod" of ControllerDeployment "d": unsupported kind: "Pod" (Secret, ConfigMap)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &corev1v1.ControllerDeployment{
				ObjectMeta: metav1.ObjectMeta{Name: "d"}, Helm: &corev1v1.HelmControllerDeployment{}, Resources: tc.resources,
			}
			if tc.values != "" {
				deployment.Helm.Values = &runtime.RawExtension{Raw: []byte(tc.values)}
			}
			got, err := (&Reconciler{Garden: garden}).values(t.Context(), deployment)
			if text := fmt.Sprint(err); tc.err != "" && text != tc.err || tc.err == "" && err != nil {
				t.Fatalf("the error is %q, want %q", text, tc.err)
			}
			if tc.err != "" {
				return
			}
			if diff := cmp.Diff(tc.want, got.values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.public, got.public); diff != "" {
				t.Errorf("public values (-want +got):\n%s", diff)
			}
		})
	}
}

// Conditions show why a chart cannot be rendered, and no values of Secrets.
func TestErrorsContainNoSecrets(t *testing.T) {
	values := chartValues{
		values: map[string]any{"word": "sesame"}, public: map[string]any{"word": "value-of-login-word"},
	}
	quoting := func(v map[string]any) (int, error) { return 0, fmt.Errorf("bad word %v", v["word"]) }
	for name, tc := range map[string]struct {
		values chartValues
		render func(map[string]any) (int, error)
		want   string
	}{
		"no error":          {values, func(map[string]any) (int, error) { return 7, nil }, "<nil>"},
		"any value fails":   {values, quoting, "bad word value-of-login-word"},
		"no Secret is used": {chartValues{values: map[string]any{"word": "x"}}, quoting, "bad word x"},
		"only the present value fails": {values, func(v map[string]any) (int, error) {
			if v["word"] == "sesame" {
				return quoting(v)
			}
			return 0, nil
		}, errSecretValues.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := renderPublic(tc.values, tc.render)
			if got := fmt.Sprint(err); got != tc.want || strings.Contains(got, "sesame") {
				t.Errorf("the error is %q, want %q", got, tc.want)
			}
			if (err == nil) != (out == 7) || err != nil && errors.Is(err, errNoChart) {
				t.Errorf("the result is %d with error %v", out, err)
			}
		})
	}
}
