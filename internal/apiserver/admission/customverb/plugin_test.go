package customverb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/golden"
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
	robot := corev1beta1.ProjectMember{Subject: rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: "n", Name: "robot",
	}, Role: "admin"}
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
		"a new project of one's own": {
			"alice", project("alice", member("alice", "admin")), project(""), nil,
		},
		"a new project with other members": {"alice", project("alice", member("bob", "viewer")), project(""), nil},
		"a new project for somebody else":  {"alice", project("bob", member("bob", "admin")), project(""), nil},
		"the owner adds a member": {
			"alice", project("alice", member("bob", "viewer")), project("alice"), nil,
		},
		"another user adds a member": {
			"bob", project("alice", member("bob", "admin")), project("alice"), []string{"manage-members"},
		},
		"another user adds a robot": {"bob", project("alice", robot), project("alice"), nil},
		"another user changes a role": {
			"bob", project("alice", member("bob", "admin")), project("alice", member("bob", "viewer")),
			[]string{"manage-members"},
		},
		"the owner hands the project over":    {"alice", project("bob"), project("alice"), nil},
		"another user takes the project over": {"bob", project("bob"), project("alice"), []string{"manage-members"}},
		"nobody is exempt for the whitelist": {
			"alice", tolerates(project("alice"), "garden-dev", "x"), project("alice"),
			[]string{"modify-spec-tolerations-whitelist"},
		},
		"defaulting is no change": {
			"alice", tolerates(project("alice"), "garden", "seed.gardener.cloud/protected"), project("alice"), nil,
		},
		"the whitelist decides before the membership": {
			"bob", tolerates(project("alice", member("bob", "admin")), "garden-dev", "x"), project("alice"),
			[]string{"modify-spec-tolerations-whitelist"},
		},
	} {
		var verbs []string
		for _, change := range ofProject(tc.now, tc.old, &user.DefaultInfo{Name: tc.caller}) {
			verbs = append(verbs, change.verb)
		}
		if diff := cmp.Diff(tc.want, verbs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPoolsOfAControlPlane(t *testing.T) {
	shoot := func(pools ...corev1beta1.Worker) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{Provider: corev1beta1.Provider{Workers: pools}}}
	}
	hosting, plain := corev1beta1.Worker{Name: "a", ControlPlane: &corev1beta1.WorkerControlPlane{}},
		corev1beta1.Worker{Name: "a"}
	other := corev1beta1.Worker{Name: "b", Maximum: 3}
	for name, tc := range map[string]struct {
		now, old *corev1beta1.Shoot
		want     []string // Fields.
	}{
		"a pool gets the control plane": {
			shoot(other, hosting), shoot(other, plain), []string{"spec.provider.workers[1].controlPlane"},
		},
		"a pool ends to run it": {
			shoot(plain), shoot(hosting), []string{"spec.provider.workers[0].controlPlane"},
		},
		"the pool goes":                   {shoot(other), shoot(other, hosting), []string{"spec.provider.workers"}},
		"another pool is added":           {shoot(other, hosting), shoot(hosting), nil},
		"a new Shoot without such a pool": {shoot(plain, other), shoot(), nil},
	} {
		var got []string
		for _, change := range ofShoot(tc.now, tc.old) {
			got = append(got, change.path.String())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// All users are denied all verbs. The golden file has the errors.
func TestRefusals(t *testing.T) {
	in := metav1.ObjectMeta{Namespace: "garden-dev", Name: "apple"}
	alice, bob := person("alice"), person("bob")
	project := func(change func(*corev1beta1.ProjectSpec)) *corev1beta1.Project {
		p := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}, Spec: corev1beta1.ProjectSpec{
			Owner: &alice, Members: []corev1beta1.ProjectMember{{Subject: alice, Role: "owner"}, {Subject: bob, Role: "admin"}},
		}}
		change(&p.Spec)
		return p
	}
	asBefore := project(func(*corev1beta1.ProjectSpec) {})
	whitelisted := func(tolerations ...corev1beta1.Toleration) *corev1beta1.Project {
		return project(func(s *corev1beta1.ProjectSpec) {
			s.Tolerations = &corev1beta1.ProjectTolerations{Whitelist: tolerations}
		})
	}
	a, b := corev1beta1.Toleration{Key: "a"}, corev1beta1.Toleration{Key: "b", Value: ptr.To("c")}
	shoot := func(pools ...corev1beta1.Worker) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{ObjectMeta: in, Spec: corev1beta1.ShootSpec{Provider: corev1beta1.Provider{Workers: pools}}}
	}
	hosting := corev1beta1.Worker{Name: "cp", ControlPlane: &corev1beta1.WorkerControlPlane{}}
	profile := func(change func(*corev1beta1.NamespacedCloudProfileSpec)) *corev1beta1.NamespacedCloudProfile {
		p := &corev1beta1.NamespacedCloudProfile{ObjectMeta: in}
		p.Spec.Kubernetes = &corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{
			{Version: "1.34.4"}, {Version: "1.35.4"},
		}}
		change(&p.Spec)
		return p
	}
	same := profile(func(*corev1beta1.NamespacedCloudProfileSpec) {})
	nameless := profile(func(*corev1beta1.NamespacedCloudProfileSpec) {})
	nameless.Name = ""

	messages := map[string]error{}
	for name, tc := range map[string]struct {
		object, old client.Object
		allowed     bool
	}{
		"Project: nothing of note": {
			project(func(s *corev1beta1.ProjectSpec) { s.Purpose = ptr.To("tests") }), asBefore, true,
		},
		"Project: on the way out":  {leaving(whitelisted(a)), asBefore, true},
		"Project: the whitelist":   {whitelisted(a, b), whitelisted(b, corev1beta1.Toleration{Key: "gone"}), false},
		"Project: its order":       {whitelisted(a, b), whitelisted(b, a), false},
		"Project: a new whitelist": {whitelisted(a), nil, false},
		"Project: members": {project(func(s *corev1beta1.ProjectSpec) {
			s.Members[1].Roles = []string{"uam"}
			s.Members = append(s.Members, corev1beta1.ProjectMember{Subject: person("carol"), Role: "viewer"})
		}), asBefore, false},
		"Project: many members": {project(func(s *corev1beta1.ProjectSpec) {
			for i := range 20 {
				s.Members = append(s.Members, corev1beta1.ProjectMember{Subject: person(fmt.Sprintf("m%02d", i)), Role: "viewer"})
			}
		}), asBefore, false},
		"Project: members under another owner": {project(func(s *corev1beta1.ProjectSpec) {
			s.Owner, s.Members = ptr.To(person("carol")), s.Members[:1]
		}), asBefore, false},
		"Project: the owner": {
			project(func(s *corev1beta1.ProjectSpec) { s.Owner, s.Members = &bob, nil }),
			project(func(s *corev1beta1.ProjectSpec) { s.Members = nil }), false,
		},
		"Project: no owner": {
			project(func(s *corev1beta1.ProjectSpec) { s.Owner, s.Members = nil, nil }),
			project(func(s *corev1beta1.ProjectSpec) { s.Members = nil }), false,
		},
		"Shoot: a pool of the control plane": {shoot(hosting), nil, false},
		"Shoot: it goes":                     {shoot(), shoot(hosting), false},
		"NamespacedCloudProfile: nothing":    {same, same, true},
		"NamespacedCloudProfile: everything": {profile(func(s *corev1beta1.NamespacedCloudProfileSpec) {
			s.Kubernetes.Versions = []corev1beta1.ExpirableVersion{
				{Version: "1.34.4", ExpirationDate: &metav1.Time{}}, {Version: "1.36.3"},
			}
			s.MachineImages = []corev1beta1.MachineImage{{Name: "os"}}
			s.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{}`)}
		}), same, false},
		"NamespacedCloudProfile: no versions any more": {
			profile(func(s *corev1beta1.NamespacedCloudProfileSpec) { s.Kubernetes = nil }), same, false,
		},
		"NamespacedCloudProfile: a generated name": {nameless, nil, false},
	} {
		err := validate(t, tc.object, tc.old, authorizer.DecisionDeny, nil)
		if (err == nil) != tc.allowed || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: Validate() = %v", name, err)
		}
		messages[name] = err
		if err := validate(t, tc.object, tc.old, authorizer.DecisionAllow, nil); err != nil {
			t.Errorf("%s by a user with the verb: %v", name, err)
		}
	}
	golden.Messages(t, messages)
	if err := validate(t, shoot(hosting), nil, authorizer.DecisionNoOpinion,
		errors.New("no connection")); !apierrors.IsInternalError(err) {
		t.Errorf("the authorizer is unavailable: %v", err)
	}
}

func leaving(p *corev1beta1.Project) *corev1beta1.Project {
	p.DeletionTimestamp = &metav1.Time{}
	return p
}

// validate makes a request of bob with the same decision for all verbs.
func validate(t *testing.T, object, old client.Object, decision authorizer.Decision, fault error) error {
	operation, before := admission.Update, runtime.Object(old)
	if old == nil {
		operation, before = admission.Create, nil
	}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1beta1.")
	a := admission.NewAttributesRecord(object, before, corev1beta1.SchemeGroupVersion.WithKind(kind),
		object.GetNamespace(), object.GetName(),
		corev1beta1.SchemeGroupVersion.WithResource(strings.ToLower(kind)+"s"), "", operation, nil, false,
		&user.DefaultInfo{Name: "bob"})
	answer := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return decision, "", fault
	})
	p := &plugin{hortusadmission.Base{
		Handler: admission.NewHandler(operation), Objects: &hortusadmission.Objects{Authorizer: answer},
	}}
	return p.Validate(t.Context(), a, nil)
}
