package projectmutator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestSubject(t *testing.T) {
	for name, want := range map[string]rbacv1.Subject{
		"alice":                       {APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"},
		"system:serviceaccount:dev:a": {Kind: "ServiceAccount", Namespace: "dev", Name: "a"},
	} {
		if diff := cmp.Diff(want, subject(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOwnerIsAMember(t *testing.T) {
	alice, bob := subject("alice"), subject("bob")
	for name, tc := range map[string]struct {
		members []corev1beta1.ProjectMember
		owner   rbacv1.Subject
		count   int
	}{
		"nobody but the creator": {nil, alice, 1},
		"a member with the role owner": {
			[]corev1beta1.ProjectMember{{Subject: bob, Role: "admin", Roles: []string{"owner"}}}, bob, 1,
		},
		"members without that role": {[]corev1beta1.ProjectMember{{Subject: bob, Role: "admin"}}, alice, 2},
	} {
		project := &corev1beta1.Project{Spec: corev1beta1.ProjectSpec{Members: tc.members}}
		project.Spec.Owner = ownerOf(project, alice)
		for range 2 { // The second call adds nobody.
			includeOwner(project)
		}
		if *project.Spec.Owner != tc.owner || len(project.Spec.Members) != tc.count {
			t.Errorf("%s: owner %v, members %v", name, project.Spec.Owner, project.Spec.Members)
		}
	}
}
