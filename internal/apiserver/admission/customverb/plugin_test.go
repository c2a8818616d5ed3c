package customverb

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func person(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func TestVerbsOfProject(t *testing.T) {
	project := func(owner string, members ...corev1beta1.ProjectMember) *corev1beta1.Project {
		p := &corev1beta1.Project{Spec: corev1beta1.ProjectSpec{Members: members}}
		if owner != "" {
			p.Spec.Owner = ptr.To(person(owner))
		}
		return p
	}
	member := func(name, role string) corev1beta1.ProjectMember {
		return corev1beta1.ProjectMember{Subject: person(name), Role: role}
	}
	robot := corev1beta1.ProjectMember{Subject: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "n", Name: "robot"}, Role: "admin"}
	tolerates := func(p *corev1beta1.Project, namespace string, keys ...string) *corev1beta1.Project {
		p.Spec.Namespace, p.Spec.Tolerations = &namespace, &corev1beta1.ProjectTolerations{}
		for _, key := range keys {
			p.Spec.Tolerations.Whitelist = append(p.Spec.Tolerations.Whitelist, corev1beta1.Toleration{Key: key})
		}
		return p
	}

	for name, tc := range map[string]struct {
		caller   string
		now, old *corev1beta1.Project
		want     []string
	}{
		"a new project of one's own":                  {"alice", project("alice", member("alice", "admin")), project(""), nil},
		"a new project with other members":            {"alice", project("alice", member("bob", "viewer")), project(""), nil},
		"a new project for somebody else":             {"alice", project("bob", member("bob", "admin")), project(""), nil},
		"the owner adds a member":                     {"alice", project("alice", member("bob", "viewer")), project("alice"), nil},
		"somebody else adds a member":                 {"bob", project("alice", member("bob", "admin")), project("alice"), []string{"manage-members"}},
		"somebody else adds a robot":                  {"bob", project("alice", robot), project("alice"), nil},
		"somebody else changes a role":                {"bob", project("alice", member("bob", "admin")), project("alice", member("bob", "viewer")), []string{"manage-members"}},
		"the owner hands the project over":            {"alice", project("bob"), project("alice"), nil},
		"somebody else takes the project over":        {"bob", project("bob"), project("alice"), []string{"manage-members"}},
		"nobody is exempt for the whitelist":          {"alice", tolerates(project("alice"), "garden-dev", "x"), project("alice"), []string{"modify-spec-tolerations-whitelist"}},
		"what defaulting adds is no change":           {"alice", tolerates(project("alice"), "garden", "seed.gardener.cloud/protected"), project("alice"), nil},
		"the whitelist decides before the membership": {"bob", tolerates(project("alice", member("bob", "admin")), "garden-dev", "x"), project("alice"), []string{"modify-spec-tolerations-whitelist"}},
	} {
		if diff := cmp.Diff(tc.want, ofProject(tc.now, tc.old, &user.DefaultInfo{Name: tc.caller})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPoolsOfAControlPlane(t *testing.T) {
	shoot := func(pools ...corev1beta1.Worker) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{Provider: corev1beta1.Provider{Workers: pools}}}
	}
	hosting, plain := corev1beta1.Worker{Name: "a", ControlPlane: &corev1beta1.WorkerControlPlane{}}, corev1beta1.Worker{Name: "a"}
	if cmp.Equal(controlPlanePools(shoot(hosting)), controlPlanePools(shoot(plain))) {
		t.Error("a pool that begins to run the control plane is no change")
	}
	if !cmp.Equal(controlPlanePools(shoot(hosting)), controlPlanePools(shoot(hosting, corev1beta1.Worker{Name: "b", Maximum: 3}))) {
		t.Error("another pool is a change")
	}
}
