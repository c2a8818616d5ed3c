package test

import (
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/test/env"
)

func TestExposureClassChoosesSeeds(t *testing.T) {
	g := newGarden(t)
	class := &corev1beta1.ExposureClass{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "internet",
		Scheduling: &corev1beta1.ExposureClassScheduling{
			SeedSelector: &corev1beta1.SeedSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"exposure": "internet"}},
				ProviderTypes: []string{"local"},
			},
			Tolerations: []corev1beta1.Toleration{{Key: "exposed"}},
		},
	}
	plain := &corev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("class-")}, Handler: "intranet"}
	g.Create(t, class, plain)
	exposed := func(class string) *corev1beta1.Shoot {
		s := g.newShoot()
		s.Spec.ExposureClassName = &class
		return s
	}
	refuse(t, "an unknown class", g.Client.Create(g.ctx, exposed("none")), apierrors.IsForbidden, "spec.exposureClassName")
	contradicting := exposed(class.Name)
	contradicting.Spec.SeedSelector = &corev1beta1.SeedSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"exposure": "none"}},
	}
	refuse(t, "another selector", g.Client.Create(g.ctx, contradicting), apierrors.IsForbidden, "exposure")
	g.Create(t, exposed(plain.Name))
	// The class requires a toleration that the project may not have.
	refuse(t, "a toleration that the project may not have", g.Client.Create(g.ctx, exposed(class.Name)),
		apierrors.IsForbidden, "spec.tolerations")
	project := g.projectOf()
	g.mustPatch(project, `{"spec":{"tolerations":{"whitelist":[{"key":"exposed"}]}}}`)
	shoot := exposed(class.Name)
	env.Eventually(t, "the toleration is allowed", func() (bool, error) {
		err := g.Client.Create(g.ctx, shoot.DeepCopy(), client.DryRunAll)
		return err == nil, err
	})
	g.Create(t, shoot)
	if s := shoot.Spec.SeedSelector; s == nil || s.MatchLabels["exposure"] != "internet" || len(s.ProviderTypes) != 1 ||
		len(shoot.Spec.Tolerations) != 1 {
		t.Errorf("merged: %+v, %+v", shoot.Spec.SeedSelector, shoot.Spec.Tolerations)
	}
}

// projectOf returns the project of the garden's namespace.
func (g *garden) projectOf() *corev1beta1.Project {
	g.t.Helper()
	list := &corev1beta1.ProjectList{}
	if err := g.Client.List(g.ctx, list, client.MatchingFields{"spec.namespace": g.namespace}); err != nil ||
		len(list.Items) != 1 {
		g.t.Fatalf("project of %s: %d, %v", g.namespace, len(list.Items), err)
	}
	return &list.Items[0]
}

func TestTolerationsOfAProject(t *testing.T) {
	g := newGarden(t)
	g.mustPatch(g.projectOf(),
		`{"spec":{"tolerations":{"defaults":[{"key":"given"}],"whitelist":[{"key":"given"},{"key":"allowed","value":"yes"}]}}}`)
	tolerating := func(list ...corev1beta1.Toleration) *corev1beta1.Shoot {
		s := g.newShoot()
		s.Spec.Tolerations = list
		return s
	}
	allowed := corev1beta1.Toleration{Key: "allowed", Value: ptr.To("yes")}
	shoot := tolerating(allowed)
	env.Eventually(t, "the project's tolerations are known", func() (bool, error) {
		err := g.Client.Create(g.ctx, shoot.DeepCopy(), client.DryRunAll)
		return err == nil, err
	})
	g.Create(t, shoot)
	if len(shoot.Spec.Tolerations) != 2 || shoot.Spec.Tolerations[1].Key != "given" {
		t.Errorf("tolerations with defaults: %v", shoot.Spec.Tolerations)
	}
	refuse(t, "another value", g.Client.Create(g.ctx, tolerating(corev1beta1.Toleration{
		Key: "allowed", Value: ptr.To("no"),
	})), apierrors.IsForbidden, "spec.tolerations[0]")
	refuse(t, "every value", g.Client.Create(g.ctx, tolerating(corev1beta1.Toleration{Key: "allowed"})),
		apierrors.IsForbidden, "spec.tolerations[0]")
	refuse(t, "another key later", g.patch(shoot, `{"spec":{"tolerations":[{"key":"other"}]}}`), apierrors.IsForbidden,
		"spec.tolerations[0]")
	g.mustPatch(g.projectOf(), `{"spec":{"tolerations":null}}`)
	g.mustPatch(shoot, `{"spec":{"purpose":"testing"}}`) // Existing tolerations stay.
}

func TestDeletionNeedsTwo(t *testing.T) {
	g := newGarden(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: env.Name("deleter-")}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{corev1beta1.GroupName}, Resources: []string{"shoots"}, Verbs: []string{"*"},
	}}}
	first, second := env.Name("person-"), env.Name("person-")
	g.Create(t, role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: first},
			{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: second},
		},
	})
	g.mustPatch(g.projectOf(),
		`{"spec":{"dualApprovalForDeletion":[{"resource":"shoots","selector":{"matchLabels":{"important":"yes"}}}]}}`)
	shoot := g.newShoot()
	shoot.Labels = map[string]string{"important": "yes"}
	g.Create(t, shoot)
	confirm := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`))
	env.Eventually(t, "the first person confirms", func() (bool, error) {
		err := g.ClientAs(t, first).Patch(g.ctx, shoot, confirm)
		return err == nil, err
	})
	env.Eventually(t, "the project's demand is known", func() (bool, error) {
		err := g.ClientAs(t, first).Delete(g.ctx, shoot, client.DryRunAll)
		return apierrors.IsForbidden(err), err
	})
	refuse(t, "the same person", g.ClientAs(t, first).Delete(g.ctx, shoot), apierrors.IsForbidden, "another person")
	if err := g.ClientAs(t, second).Delete(g.ctx, shoot, client.DryRunAll); err != nil {
		t.Errorf("another person: %v", err)
	}
}

func TestShootIsNotForgottenBeforeItIsGone(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	g.mustPatch(shoot,
		`{"metadata":{"finalizers":["gardener"],"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)
	g.mustPatch(shoot,
		`{"status":{"technicalID":"shoot--a--b","lastOperation":{"type":"Delete","state":"Processing","progress":50,"description":"","lastUpdateTime":"2030-01-01T00:00:00Z"}}}`, "status")
	if err := g.Client.Delete(g.ctx, shoot); err != nil {
		t.Fatal(err)
	}
	const free = `{"metadata":{"finalizers":null}}`
	refuse(t, "half way", g.patch(shoot, free), apierrors.IsForbidden, "deleted completely")
	g.mustPatch(shoot, `{"status":{"lastOperation":{"state":"Succeeded","progress":100}}}`, "status")
	g.mustPatch(shoot, free)
}

func TestSeedKeepsWhatItsShootsUse(t *testing.T) {
	g := newGarden(t)
	seed, shoot := newSeed(), g.newShoot()
	seed.Spec.Provider.Zones = []string{"a", "b"}
	g.Create(t, seed, shoot)
	g.mustPatch(shoot, bind(seed.Name), "binding")
	for what, patch := range map[string]string{
		"spec.provider.zones":      `{"spec":{"provider":{"zones":["a"]}}}`,
		"spec.dns.internal.domain": `{"spec":{"dns":{"internal":{"domain":"other.local.hortus.dev"}}}}`,
		"spec.dns.defaults":        `{"spec":{"dns":{"defaults":[{"type":"local","domain":"other.hortus.dev","credentialsRef":{"apiVersion":"v1","kind":"Secret","namespace":"garden","name":"dns"}}]}}}`,
	} {
		env.Eventually(t, what+" is in use", func() (bool, error) {
			err := g.Client.Patch(g.ctx, seed.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)),
				client.DryRunAll)
			return apierrors.IsForbidden(err), err
		})
		refuse(t, what, g.patch(seed.DeepCopy(), patch), apierrors.IsForbidden, what)
	}
	g.mustPatch(seed, `{"spec":{"provider":{"zones":["a","b","c"]},"taints":[{"key":"new"}]}}`)
	identity := &securityv1alpha1.WorkloadIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: env.Name("wi-")},
		Spec: securityv1alpha1.WorkloadIdentitySpec{
			Audiences: []string{"a"}, TargetSystem: securityv1alpha1.TargetSystem{Type: "aws"},
		},
	}
	g.Create(t, identity)
	refuse(t, "backups with an identity for others",
		g.patch(seed,
			`{"spec":{"backup":{"credentialsRef":{"apiVersion":"security.gardener.cloud/v1alpha1","kind":"WorkloadIdentity","namespace":"garden","name":"`+identity.Name+`"}}}}`),
		apierrors.IsForbidden, "spec.backup.credentialsRef")
}

func TestQuotasOfCredentials(t *testing.T) {
	g := newGarden(t)
	quota := &corev1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "shared"}}
	quota.Spec.Scope = corev1.ObjectReference{APIVersion: "v1", Kind: "Secret"}
	quota.Spec.Metrics = corev1.ResourceList{"cpu": resource.MustParse("3")}
	quota.Spec.ClusterLifetimeDays = ptr.To[int32](7)
	g.Create(t, quota)
	// Two bindings of either kind to the same credentials.
	quotas := []corev1.ObjectReference{{Namespace: g.namespace, Name: "shared"}}
	binding := g.binding.DeepCopy()
	binding.ObjectMeta, binding.Quotas = metav1.ObjectMeta{Namespace: g.namespace, Name: "newer"}, quotas
	g.Create(t, binding, &corev1beta1.SecretBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "older"},
		SecretRef:  corev1.SecretReference{Name: "cloud"},
		Provider:   &corev1beta1.SecretBindingProvider{Type: "local"}, Quotas: quotas,
	})
	older, newer := g.newShoot(), g.newShoot()
	older.Spec.CredentialsBindingName, older.Spec.SecretBindingName = nil, ptr.To("older")
	newer.Spec.CredentialsBindingName = ptr.To("newer")
	g.Create(t, older)
	env.Eventually(t, "the quota is shared", func() (bool, error) {
		err := g.Client.Create(g.ctx, newer.DeepCopy(), client.DryRunAll)
		return apierrors.IsForbidden(err), err
	})
	refuse(t, "more than the credentials' quota", g.Client.Create(g.ctx, newer.DeepCopy()), apierrors.IsForbidden,
		"quota limits exceeded")
	newer.Spec.Provider.Workers[0].Maximum = 1
	g.Create(t, newer)
	expiration := func(after time.Duration) string {
		return `{"metadata":{"annotations":{"shoot.gardener.cloud/expiration-timestamp":"` +
			time.Now().Add(after).UTC().Format(time.RFC3339) + `"}}}`
	}
	refuse(t, "a longer life", g.patch(newer, expiration(30*24*time.Hour)), apierrors.IsForbidden, "7 days")
	g.mustPatch(newer, expiration(24*time.Hour))
}

func TestBindingsAndTheirUsers(t *testing.T) {
	g := newGarden(t)
	secret := &corev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "internal"}}
	binding := g.binding.DeepCopy()
	binding.ObjectMeta = metav1.ObjectMeta{Namespace: g.namespace, Name: "internal"}
	binding.CredentialsRef = corev1.ObjectReference{
		APIVersion: "core.gardener.cloud/v1beta1", Kind: "InternalSecret", Namespace: g.namespace, Name: "internal",
	}
	refuse(t, "a missing InternalSecret", g.Client.Create(g.ctx, binding.DeepCopy()), apierrors.IsForbidden,
		"InternalSecret "+g.namespace+"/internal")
	g.Create(t, secret, binding)
	list := &corev1beta1.InternalSecretList{}
	if err := g.Client.List(g.ctx, list, client.InNamespace(g.namespace)); err != nil || len(list.Items) != 1 {
		t.Errorf("%d InternalSecrets, %v: the copy for the provider must not stay", len(list.Items), err)
	}

	shoot := g.newShoot()
	shoot.Spec.CredentialsBindingName = ptr.To("later")
	refuse(t, "a missing binding", g.Client.Create(g.ctx, shoot.DeepCopy()), apierrors.IsForbidden,
		"spec.credentialsBindingName")
	later := g.binding.DeepCopy()
	later.ObjectMeta = metav1.ObjectMeta{Namespace: g.namespace, Name: "later"}
	g.Create(t, later, shoot)
	if err := g.Client.Delete(g.ctx, later); err != nil { // Without the controller manager no finalizer protects it.
		t.Fatal(err)
	}
	again := g.binding.DeepCopy()
	again.ObjectMeta, again.Provider.Type = metav1.ObjectMeta{Namespace: g.namespace, Name: "later"}, "aws"
	env.Eventually(t, "the binding's user is known", func() (bool, error) {
		err := g.Client.Create(g.ctx, again.DeepCopy(), client.DryRunAll)
		return apierrors.IsForbidden(err), err
	})
	refuse(t, "a binding for another provider than its users'", g.Client.Create(g.ctx,
		again), apierrors.IsForbidden, shoot.Name)
}

func TestDomainsThatUsersManage(t *testing.T) {
	g := newGarden(t)
	seed, shoot := newSeed(), g.newShoot()
	shoot.Spec.DNS = &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{{
		Type: ptr.To("unmanaged"), Primary: ptr.To(true),
	}}}
	g.Create(t, seed, shoot)
	g.mustPatch(shoot, bind(seed.Name), "binding")
	if shoot.Spec.DNS.Domain != nil {
		t.Errorf("a Shoot with unmanaged DNS got the domain %s", *shoot.Spec.DNS.Domain)
	}
	provider := corev1beta1.DNSProvider{
		Type: ptr.To("local"), Primary: ptr.To(true),
		CredentialsRef: &autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud"},
	}
	own := g.newShoot()
	own.Spec.DNS = &corev1beta1.DNS{
		Domain:    ptr.To(own.Name + "." + g.projectOf().Name + ".local.hortus.dev"),
		Providers: []corev1beta1.DNSProvider{provider},
	}
	refuse(t, "an own provider for a domain of the landscape", g.Client.Create(g.ctx, own.DeepCopy()),
		apierrors.IsInvalid, "spec.dns.providers[0].primary")
	own.Spec.DNS.Providers = nil
	g.Create(t, own)
	foreign := g.newShoot()
	foreign.Spec.DNS = &corev1beta1.DNS{Domain: ptr.To("api.local.hortus.dev")}
	refuse(t, "an own name below a domain of the landscape", g.Client.Create(g.ctx, foreign), apierrors.IsInvalid,
		"spec.dns.domain")
}
