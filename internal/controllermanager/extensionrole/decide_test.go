package extensionrole

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSubjects(t *testing.T) {
	account := func(namespace, name string, labels map[string]string) corev1.ServiceAccount {
		return corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	}
	dns, net := map[string]string{labelRegistration: "dns", "k": "v"}, map[string]string{labelRegistration: "net"}
	leaving := account("seed-a", "extension-leaving", dns)
	leaving.DeletionTimestamp = &metav1.Time{}
	accounts := []corev1.ServiceAccount{
		account("seed-b", "extension-dns", dns), account("seed-a", "extension-dns", dns),
		account("seed-c", "extension-dns", dns), // It is not installed there.
		account("seed-a", "extension-net", net), account("seed-a", "extension-own", map[string]string{"k": "v"}),
		account("seed-a", "operator", map[string]string{"k": "v"}), // It is no extension's.
		account("garden-dev", "extension-dns", dns), leaving,       // A project's, and one that is being deleted.
	}
	extensions := map[installed]bool{{"dns", "a"}: true, {"dns", "b"}: true, {"net", "a"}: true}
	const byName = `{"matchLabels":{"controllerregistration.core.gardener.cloud/name":"dns"}}`
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        []string
		err         string
	}{
		"no annotation": {},
		"one extension": {map[string]string{AnnotationSelector: byName}, []string{"seed-a/extension-dns",
			"seed-b/extension-dns"}, ""},
		"labels of its own": {map[string]string{AnnotationSelector: `{"matchLabels":{"k":"v"}}`},
			[]string{"seed-a/extension-dns", "seed-a/extension-own", "seed-b/extension-dns"}, ""},
		"all": {map[string]string{AnnotationSelector: `{}`}, []string{"seed-a/extension-dns", "seed-a/extension-net",
			"seed-a/extension-own", "seed-b/extension-dns"}, ""},
		"nothing": {map[string]string{AnnotationSelector: `{"matchLabels":{"k":"w"}}`}, nil, ""},
		"no JSON": {map[string]string{AnnotationSelector: `k=v`}, nil,
			"annotation authorization.gardener.cloud/extensions-serviceaccount-selector: invalid character 'k' looking for " +
				"beginning of value"},
		"no selector": {map[string]string{AnnotationSelector: `{"matchExpressions":[{"key":"k","operator":"Is"}]}`}, nil,
			`annotation authorization.gardener.cloud/extensions-serviceaccount-selector: "Is" is not a valid label selector ` +
				`operator`},
	} {
		t.Run(name, func(t *testing.T) {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u", Annotations: tc.annotations}}
			selector, err := selectorOf(role)
			if tc.err != "" {
				if got := fmt.Sprint(err); got != tc.err {
					t.Errorf("the error is %q, want %q", got, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			binding := desired(role, subjects(selector, accounts, extensions))
			if tc.want == nil {
				if binding != nil {
					t.Errorf("the binding is %+v", binding)
				}
				return
			}
			var got []string
			for _, s := range binding.Subjects {
				got = append(got, s.Namespace+"/"+s.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
			if binding.RoleRef.Name != "r" || binding.OwnerReferences[0].UID != "u" {
				t.Errorf("the binding is %+v", binding)
			}
		})
	}
}
