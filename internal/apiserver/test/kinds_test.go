package test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

func TestVersionsInUseStay(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	without := func(index int) *corev1beta1.CloudProfile {
		profile := g.profile.DeepCopy()
		versions := &profile.Spec.Kubernetes.Versions
		*versions = append((*versions)[:index:index], (*versions)[index+1:]...)
		return profile
	}
	if err := g.Client.Update(g.ctx, without(1)); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), shoot.Name) {
		t.Errorf("removal of a version in use: %v", err)
	}
	if err := g.Client.Update(g.ctx, without(3)); err != nil {
		t.Errorf("removal of an unused version: %v", err)
	}
	g.get(g.profile)
	g.profile.Spec.MachineImages[0].Versions = g.profile.Spec.MachineImages[0].Versions[:1]
	if err := g.Client.Update(g.ctx, g.profile); !apierrors.IsForbidden(err) {
		t.Errorf("removal of an image in use: %v", err)
	}
	g.get(g.profile)
	g.profile.Spec.Limits = &corev1beta1.Limits{MaxNodesTotal: ptr.To[int32](1)}
	if err := g.Client.Update(g.ctx, g.profile); err != nil {
		t.Errorf("a limit that holds: %v", err)
	}
}

func TestNamespacedCloudProfile(t *testing.T) {
	g := newGarden(t)
	child := func(parent string) *corev1beta1.NamespacedCloudProfile {
		return &corev1beta1.NamespacedCloudProfile{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: env.Name("mine-")},
			Spec: corev1beta1.NamespacedCloudProfileSpec{Parent: corev1beta1.CloudProfileReference{
				Kind: "CloudProfile", Name: parent,
			}},
		}
	}
	refuse(t, "an unknown parent", g.Client.Create(g.ctx, child("none")), apierrors.IsBadRequest, "none")
	unknown := child(g.profile.Name)
	later := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
	unknown.Spec.Kubernetes = &corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{
		Version: "1.36.2", ExpirationDate: &later,
	}}}
	refuse(t, "a version that the parent lacks", g.Client.Create(g.ctx, unknown), apierrors.IsForbidden,
		"spec.kubernetes.versions[0].version")

	// 1.34.0 has expired in the parent.
	profile := child(g.profile.Name)
	profile.Spec.Kubernetes = &corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{
		Version: "1.34.0", ExpirationDate: &later,
	}}}
	g.Create(t, profile)
	shoot := g.newShoot()
	shoot.Spec.Kubernetes.Version = "1.34.0"
	refuse(t, "a version that has expired in the parent", g.Client.Create(g.ctx, shoot.DeepCopy()), apierrors.IsForbidden,
		"spec.kubernetes.version")
	shoot.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "NamespacedCloudProfile", Name: profile.Name}
	g.Create(t, shoot)
	refuse(t, "a later expiration date that a Shoot needs", g.patch(profile,
		`{"spec":{"kubernetes":null}}`), apierrors.IsForbidden, shoot.Name)
	g.mustPatch(profile, `{"metadata":{"labels":{"a":"b"}}}`)
	refuse(t, "another parent", g.patch(profile, `{"spec":{"parent":{"name":"other"}}}`), apierrors.IsInvalid,
		"spec.parent")
	g.get(g.profile)
	g.profile.Spec.Kubernetes.Versions = g.profile.Spec.Kubernetes.Versions[:4]
	refuse(t, "a version that a child changes", g.Client.Update(g.ctx, g.profile), apierrors.IsForbidden,
		"NamespacedCloudProfile "+g.namespace+"/"+profile.Name)
}

func TestProject(t *testing.T) {
	e := env.Shared(t)
	member := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}
	project := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("m")},
		Spec: corev1beta1.ProjectSpec{Members: []corev1beta1.ProjectMember{
			{Subject: rbacv1.Subject{Kind: rbacv1.UserKind, Name: "alice"}, Roles: []string{"admin", "owner"}},
			{Subject: rbacv1.Subject{Kind: rbacv1.UserKind, Name: "bob"}},
		}},
	}
	e.Create(t, project)
	if diff := cmp.Diff(&member, project.Spec.Owner); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	want := []corev1beta1.ProjectMember{
		{Subject: member, Role: "admin", Roles: []string{"owner"}},
		{Subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"}, Role: "viewer"},
	}
	if diff := cmp.Diff(want, project.Spec.Members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	other := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("m")},
		Spec:       corev1beta1.ProjectSpec{Namespace: e.Project(t).Spec.Namespace},
	}
	if err := e.Client.Create(t.Context(), other); !apierrors.IsForbidden(err) {
		t.Errorf("a namespace that belongs to another project: %v", err)
	}
}

func TestControllerDeploymentVersions(t *testing.T) {
	e := env.Shared(t)
	ctx := t.Context()
	old := &corev1beta1.ControllerDeployment{
		ObjectMeta:     metav1.ObjectMeta{Name: env.Name("deployment-")},
		Type:           "helm",
		ProviderConfig: runtime.RawExtension{Raw: []byte(`{"chart":"aGVsbG8=","values":{"a":1}}`)},
	}
	e.Create(t, old)
	v1 := &gardencorev1.ControllerDeployment{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(old), v1); err != nil {
		t.Fatal(err)
	}
	if v1.Helm == nil || string(v1.Helm.RawChart) != "hello" || string(v1.Helm.Values.Raw) != `{"a":1}` ||
		v1.Generation != 1 {
		t.Errorf("as v1: %+v", v1)
	}
	custom := &corev1beta1.ControllerDeployment{
		ObjectMeta:     metav1.ObjectMeta{Name: env.Name("deployment-")},
		Type:           "custom",
		ProviderConfig: runtime.RawExtension{Raw: []byte(`{"x":"y"}`)},
	}
	e.Create(t, custom)
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(custom), v1); err != nil {
		t.Fatal(err)
	}
	if v1.Helm != nil || v1.Annotations[gardencorev1.AnnotationMigrationType] != "custom" {
		t.Errorf("custom type as v1: %+v", v1)
	}
	list := &corev1beta1.ControllerDeploymentList{}
	if err := e.Client.List(ctx, list); err != nil || len(list.Items) < 2 {
		t.Errorf("list of v1beta1: %d, %v", len(list.Items), err)
	}
	for i := range list.Items {
		if list.Items[i].Name == custom.Name && (list.Items[i].Type != "custom" || len(list.Items[i].Annotations) > 0) {
			t.Errorf("custom type in a list of v1beta1: %+v", list.Items[i])
		}
	}
}

func TestInternalSecret(t *testing.T) {
	g := newGarden(t)
	secret := &corev1beta1.InternalSecret{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "internal"},
		Data:       map[string][]byte{"a": []byte("1")}, StringData: map[string]string{"b": "2"},
	}
	g.Create(t, secret)
	want := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	if diff := cmp.Diff(want, secret.Data); diff != "" || secret.StringData != nil ||
		secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("stored: %+v", secret)
	}
	list := &corev1beta1.InternalSecretList{}
	if err := g.Client.List(g.ctx, list, client.InNamespace(g.namespace),
		client.MatchingFields{"type": "Opaque"}); err != nil || len(list.Items) != 1 {
		t.Errorf("list by type: %d, %v", len(list.Items), err)
	}
}

func TestBindingNeedsItsCredentials(t *testing.T) {
	g := newGarden(t)
	binding := &corev1beta1.SecretBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "other"},
		SecretRef:  corev1.SecretReference{Name: "missing"},
		Provider:   &corev1beta1.SecretBindingProvider{Type: "local"},
	}
	if err := g.Client.Create(g.ctx, binding); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("missing Secret: %v", err)
	}
	binding.SecretRef.Name = "cloud"
	g.Create(t, binding)
	if binding.SecretRef.Namespace != g.namespace {
		t.Errorf("namespace is %q", binding.SecretRef.Namespace)
	}
	// A user who may write bindings but not read the Secret cannot use it through a binding.
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "binder"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{corev1beta1.GroupName}, Resources: []string{"secretbindings"}, Verbs: []string{"create"},
		}},
	}
	grant := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "binder"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "binder"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "binder"}},
	}
	g.Create(t, role, grant)
	binding = &corev1beta1.SecretBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "third"},
		SecretRef:  corev1.SecretReference{Name: "cloud"}, Provider: &corev1beta1.SecretBindingProvider{Type: "local"},
	}
	as := g.ClientAs(t, "binder")
	env.Eventually(t, "the role is effective", func() (bool, error) {
		err := as.Create(g.ctx, binding.DeepCopy())
		return err != nil && strings.Contains(err.Error(), `may not get Secret`), err
	})
}
