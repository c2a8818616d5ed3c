package project

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func project(change ...func(*corev1beta1.Project)) *corev1beta1.Project {
	p := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev", UID: "4711"}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestNamespaceName(t *testing.T) {
	named := project(func(p *corev1beta1.Project) { p.Spec.Namespace = new("garden-x") })
	if got := namespaceName(named); got != "garden-x" {
		t.Errorf("the requested namespace became %q", got)
	}
	// First five hexadecimal digits of the SHA-256 sum of 4711.
	if got, want := namespaceName(project()), "garden-dev-dd9ea"; len(got) != len(want) ||
		got[:len("garden-dev-")] != "garden-dev-" {
		t.Errorf("the generated namespace is %q, want one like %q", got, want)
	}
}

func TestNamespaceStaysIfAnOperatorWants(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "True": true, "1": true, "false": false, "yes": false, "": false,
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationKeepAfter: value}}}
		if got := stays(ns); got != want {
			t.Errorf("stays() with %q = %t, want %t", value, got, want)
		}
	}
}

func TestAdoptable(t *testing.T) {
	labelled := map[string]string{labelRole: roleProject, labelProjectName: "dev"}
	for name, tc := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"a namespace that an operator has labelled": {metav1.ObjectMeta{Labels: labelled}, true},
		"our own":       {metav1.ObjectMeta{Annotations: map[string]string{annotationProject: "4711"}}, true},
		"a foreign one": {metav1.ObjectMeta{}, false},
		"another project's": {metav1.ObjectMeta{
			Labels: labelled, Annotations: map[string]string{annotationProject: "other"},
		}, false},
		"labelled for another project": {metav1.ObjectMeta{Labels: map[string]string{
			labelRole: roleProject, labelProjectName: "x",
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if reason := adoptable(project(), &corev1.Namespace{ObjectMeta: tc.meta}); (reason == "") != tc.want {
				t.Errorf("adoptable() = %q, want it to be possible: %v", reason, tc.want)
			}
		})
	}
}

func TestDesiredAccess(t *testing.T) {
	user := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "User", Name: name} }
	p := project(func(p *corev1beta1.Project) {
		p.Spec.Members = []corev1beta1.ProjectMember{
			{Subject: user("alice"), Role: "admin", Roles: []string{"owner"}},
			{Subject: user("bob"), Role: "viewer", Roles: []string{"uam", "extension:logs"}},
		}
	})
	got := map[string][]string{}
	for _, o := range desiredAccess(p) {
		switch binding := o.(type) {
		case *rbacv1.RoleBinding:
			got[binding.Name] = names(binding.Subjects)
		case *rbacv1.ClusterRoleBinding:
			got[binding.Name] = names(binding.Subjects)
		}
	}
	want := map[string][]string{
		"gardener.cloud:system:project-member":                {"alice"},
		"gardener.cloud:system:project-viewer":                {"bob"},
		"gardener.cloud:system:project-serviceaccountmanager": nil,
		"gardener.cloud:system:project:dev":                   {"alice"},
		"gardener.cloud:system:project-member:dev":            {"alice"},
		"gardener.cloud:system:project-viewer:dev":            {"bob"},
		"gardener.cloud:system:project-uam:dev":               {"bob"},
		"gardener.cloud:extension:project:dev:logs":           {"bob"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subjects of bindings mismatch (-want +got):\n%s", diff)
	}
}

func names(subjects []rbacv1.Subject) []string {
	var all []string
	for _, s := range subjects {
		all = append(all, s.Name)
	}
	return all
}
