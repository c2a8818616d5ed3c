package test

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

// userWith returns a client of a new user with the given rules, once they are in effect.
func (g *garden) userWith(rules ...rbacv1.PolicyRule) client.Client {
	g.t.Helper()
	name := env.Name("user-")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	g.Create(g.t, role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})
	as := g.ClientAs(g.t, name)
	env.Eventually(g.t, name+" has rights", func() (bool, error) {
		err := as.List(g.ctx, &corev1beta1.ShootList{}, client.InNamespace(g.namespace))
		return err == nil, err
	})
	return as
}

func may(verbs, resources []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{corev1beta1.GroupName}, Resources: resources, Verbs: verbs}
}

// Users who may write Shoots and profiles may not set all of their fields.
func TestWhatNeedsMoreRights(t *testing.T) {
	g := newGarden(t)
	write := []string{"get", "list", "create", "update", "patch"}
	basic := may(write, []string{"shoots", "namespacedcloudprofiles"})
	editor := g.userWith(basic)
	scheduler := g.userWith(basic, may([]string{"update"}, []string{"shoots/binding"}))
	seed := newSeed()
	g.Create(t, seed)

	placed := g.newShoot()
	placed.Spec.SeedName = &seed.Name
	refuse(t, "a Seed", editor.Create(g.ctx, placed.DeepCopy(), client.DryRunAll), apierrors.IsForbidden,
		"spec.seedName: may be set only by those who may update shoots/binding")
	if err := scheduler.Create(g.ctx, placed.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a Seed by a user who may bind: %v", err)
	}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "other"}}
	binding := g.binding.DeepCopy()
	binding.ObjectMeta, binding.CredentialsRef.Name = metav1.ObjectMeta{Namespace: g.namespace, Name: "other"}, "other"
	shoot := g.newShoot()
	g.Create(t, secret, binding, shoot)
	patch := func(as client.Client, text string) error {
		return as.Patch(g.ctx, shoot.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)),
			client.DryRunAll)
	}
	refuse(t, "other credentials", patch(editor, `{"spec":{"credentialsBindingName":"other"}}`), apierrors.IsForbidden,
		"the permission to get Secret "+g.namespace)
	refuse(t, "a Secret",
		patch(editor,
			`{"spec":{"resources":[{"name":"a","resourceRef":{"apiVersion":"v1","kind":"Secret","name":"other"}}]}}`),
		apierrors.IsForbidden, "may not get Secret "+g.namespace+"/other")
	reader := g.userWith(basic, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"},
	})
	if err := patch(reader, `{"spec":{"credentialsBindingName":"other"}}`); err != nil {
		t.Errorf("other credentials by a user who may read both: %v", err)
	}

	own := g.newShoot()
	own.Spec.Provider.Workers[0].ControlPlane = &corev1beta1.WorkerControlPlane{}
	refuse(t, "a pool for the control plane", editor.Create(g.ctx, own, client.DryRunAll), apierrors.IsForbidden,
		`needs the verb "mark-self-hosted"`)

	profile := func(spec corev1beta1.NamespacedCloudProfileSpec) *corev1beta1.NamespacedCloudProfile {
		spec.Parent = corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: g.profile.Name}
		return &corev1beta1.NamespacedCloudProfile{ObjectMeta: metav1.ObjectMeta{
			Namespace: g.namespace, Name: env.Name("mine-"),
		}, Spec: spec}
	}
	later := metav1.Now().Add(1 << 40)
	image := corev1beta1.MachineImage{Name: "own", Versions: []corev1beta1.MachineImageVersion{{
		ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}, Architectures: []string{"amd64"},
		CRI: []corev1beta1.CRI{{Name: "containerd"}},
	}}, UpdateStrategy: ptr.To(corev1beta1.UpdateStrategyMajor)}
	versions := &corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{
		Version: "1.35.4", ExpirationDate: &metav1.Time{Time: later},
	}}}
	privileged := g.userWith(basic,
		may([]string{"modify-spec-kubernetes", "modify-spec-machineimages"}, []string{"namespacedcloudprofiles"}))
	for verb, spec := range map[string]corev1beta1.NamespacedCloudProfileSpec{
		"modify-spec-kubernetes":    {Kubernetes: versions},
		"modify-spec-machineimages": {MachineImages: []corev1beta1.MachineImage{image}},
	} {
		refuse(t, verb, editor.Create(g.ctx, profile(spec),
			client.DryRunAll), apierrors.IsForbidden, `needs the verb "`+verb+`"`)
		if err := privileged.Create(g.ctx, profile(spec), client.DryRunAll); err != nil {
			t.Errorf("%s by a user with the verb: %v", verb, err)
		}
	}
	if err := editor.Create(g.ctx, profile(corev1beta1.NamespacedCloudProfileSpec{
		Limits: &corev1beta1.Limits{MaxNodesTotal: ptr.To[int32](5)},
	}), client.DryRunAll); err != nil {
		t.Errorf("a limit: %v", err)
	}
}

// Versions and images that cannot be completed are rejected with the available ones.
func TestShootsThatCannotBeCompleted(t *testing.T) {
	g := newGarden(t)
	for what, tc := range map[string]struct {
		change func(*corev1beta1.ShootSpec)
		text   string
	}{
		"a minor version that is not offered": {
			func(s *corev1beta1.ShootSpec) { s.Kubernetes.Version = "1.30" }, "spec.kubernetes.version",
		},
		"a minor version that has only a preview": {
			func(s *corev1beta1.ShootSpec) { s.Kubernetes.Version = "1.37" }, "spec.kubernetes.version",
		},
		"no version at all": {
			func(s *corev1beta1.ShootSpec) { s.Kubernetes.Version = "latest" }, "spec.kubernetes.version",
		},
		"an image that is not offered": {func(s *corev1beta1.ShootSpec) {
			s.Provider.Workers[0].Machine.Image = &corev1beta1.ShootMachineImage{Name: "none"}
		}, "spec.provider.workers[0].machine.image"},
		"an architecture without an image": {
			func(s *corev1beta1.ShootSpec) { s.Provider.Workers[0].Machine.Architecture = ptr.To("arm64") },
			"spec.provider.workers[0].machine",
		},
	} {
		shoot := g.newShoot()
		tc.change(&shoot.Spec)
		refuse(t, what, g.Client.Create(g.ctx, shoot), apierrors.IsForbidden, tc.text)
	}
	shoot := g.newShoot()
	shoot.Spec.CloudProfile.Name = "none"
	err := g.Client.Create(g.ctx, shoot)
	for _, text := range []string{
		"could not find referenced cloud profile", `spec.cloudProfile.name: Not found: "none"`, strconv.Quote(g.profile.Name),
	} {
		refuse(t, "a missing profile", err, apierrors.IsInternalError, text)
	}
	if cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueNotFound); !ok ||
		cause.Field != "spec.cloudProfile.name" {
		t.Errorf("cause of a missing profile is %+v", cause)
	}
	orphan := &corev1beta1.NamespacedCloudProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "orphan"},
		Spec: corev1beta1.NamespacedCloudProfileSpec{Parent: corev1beta1.CloudProfileReference{
			Kind: "CloudProfile", Name: "none",
		}},
	}
	refuse(t, "a missing parent", g.Client.Create(g.ctx, orphan), apierrors.IsBadRequest,
		`spec.parent.name: parent CloudProfile "none" does not exist`)
}
