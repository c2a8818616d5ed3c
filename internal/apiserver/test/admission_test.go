package test

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/test/env"
)

// refuse checks that an error is of the given kind and has the given text.
func refuse(t *testing.T, what string, err error, is func(error) bool, text string) {
	t.Helper()
	if err == nil || !is(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

func bind(seed string) string { return `{"spec":{"seedName":"` + seed + `"}}` }

// placed returns a Shoot on its own Seed.
func (g *garden) placed() (*corev1beta1.Shoot, *corev1beta1.Seed) {
	g.t.Helper()
	seed, shoot := newSeed(), g.newShoot()
	g.Create(g.t, seed, shoot)
	g.mustPatch(shoot, bind(seed.Name), "binding")
	return shoot, seed
}

func TestBastionIsCompletedFromItsShoot(t *testing.T) {
	g := newGarden(t)
	waiting := g.newShoot()
	g.Create(t, waiting)
	shoot, seed := g.placed()
	bastion := func(shoot string) *operationsv1alpha1.Bastion {
		b := &operationsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: env.Name("b")}}
		b.Spec.ShootRef.Name = shoot
		b.Spec.SSHPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGykj8Nqmi5x5ifc7MlS0R1A8p1rxMWUWnIgmyNXuxVS"
		b.Spec.Ingress = make([]operationsv1alpha1.BastionIngressPolicy, 1)
		b.Spec.Ingress[0].IPBlock.CIDR = "10.0.0.0/8"
		return b
	}
	refuse(t, "a missing Shoot", g.Client.Create(g.ctx, bastion("none")), apierrors.IsInvalid,
		"spec.shootRef.name")
	refuse(t, "a Shoot without Seed", g.Client.Create(g.ctx, bastion(waiting.Name)), apierrors.IsInvalid, "no Seed")
	b := bastion(shoot.Name)
	b.Spec.SSHPublicKey = "command=\"sh\" " + b.Spec.SSHPublicKey
	refuse(t, "a key with options", g.Client.Create(g.ctx, b), apierrors.IsInvalid, "spec.sshPublicKey")
	b = bastion(shoot.Name)
	b.Annotations = map[string]string{corev1beta1.AnnotationCreatedBy: "somebody"}
	g.Create(t, b)
	if *b.Spec.SeedName != seed.Name || *b.Spec.ProviderType != "local" ||
		b.Annotations[corev1beta1.AnnotationCreatedBy] == "somebody" {
		t.Errorf("Bastion is %+v of %q", b.Spec, b.Annotations[corev1beta1.AnnotationCreatedBy])
	}
	if at := b.Status.ExpirationTimestamp; at == nil || at.Sub(b.CreationTimestamp.Time).Round(time.Minute) != time.Hour {
		t.Errorf("the Bastion created at %v expires at %v", b.CreationTimestamp, at)
	}
	b.Status = operationsv1alpha1.BastionStatus{}
	if err := g.Client.Status().Update(g.ctx, b); err != nil {
		t.Fatal(err)
	}
	g.mustPatch(b, `{"metadata":{"annotations":{"gardener.cloud/operation":"keepalive"}}}`)
	if _, left := b.Annotations["gardener.cloud/operation"]; left || b.Status.ExpirationTimestamp == nil ||
		b.Status.LastHeartbeatTimestamp == nil || b.Generation != 1 {
		t.Errorf("the Bastion that is kept alive is %+v", b)
	}
	g.mustPatch(b, `{"metadata":{"annotations":{"gardener.cloud/created-by":"somebody"}}}`)
	if b.Annotations[corev1beta1.AnnotationCreatedBy] == "somebody" {
		t.Error("the creator can be changed")
	}
}

func TestSeedTakesAsManyShootsAsItHasRoomFor(t *testing.T) {
	g := newGarden(t)
	first, seed := g.placed()
	g.mustPatch(seed, `{"status":{"allocatable":{"shoots":"1"}}}`, "status")
	second := g.newShoot()
	g.Create(t, second)
	env.Eventually(t, "the Seed is known to be full", func() (bool, error) {
		err := g.Client.SubResource("binding").Patch(g.ctx, second,
			client.RawPatch("application/merge-patch+json", []byte(bind(seed.Name))), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "allocatable.shoots"), err
	})
	g.mustPatch(first, `{"spec":{"purpose":"testing"}}`)
	refuse(t, "a selector that excludes the Seed", g.patch(first, `{"spec":{"seedSelector":{"matchLabels":{"a":"b"}}}}`),
		apierrors.IsForbidden, "spec.seedSelector")
	g.mustPatch(seed, `{"metadata":{"labels":{"a":"b"}}}`)
	env.Eventually(t, "the label is known", func() (bool, error) {
		err := g.patch(first, `{"spec":{"seedSelector":{"matchLabels":{"a":"b"}}}}`)
		return err == nil, err
	})
	refuse(t, "removal of the selector", g.patch(first, `{"spec":{"seedSelector":null}}`), apierrors.IsForbidden,
		"cannot be removed")
}

func TestDomainsBelongToWhoTakesThemFirst(t *testing.T) {
	g := newGarden(t)
	with := func(domain string) *corev1beta1.Shoot {
		s := g.newShoot()
		s.Spec.DNS = &corev1beta1.DNS{Domain: &domain}
		return s
	}
	base := env.Name("d") + ".example.com"
	g.Create(t, with("a."+base))
	for domain, text := range map[string]string{"a." + base: "Duplicate", "x.a." + base: "overlaps", base: "overlaps"} {
		env.Eventually(t, domain+" is taken", func() (bool, error) {
			err := g.Client.Create(g.ctx, with(domain), client.DryRunAll)
			return apierrors.IsForbidden(err) && strings.Contains(err.Error(), text), err
		})
	}
	if err := g.Client.Create(g.ctx, with("aa."+base), client.DryRunAll); err != nil {
		t.Errorf("a free domain: %v", err)
	}
}

// TestNamesOfOtherShootsAreRefused: no Shoot gets the internal name of another one, whether that is hibernated or not.
func TestNamesOfOtherShootsAreRefused(t *testing.T) {
	g := newGarden(t)
	seed := newSeed()
	seed.Spec.DNS.Internal.Domain, seed.Spec.Ingress.Domain = "elsewhere.example", "ingress.elsewhere.example"
	g.Create(t, seed)
	internal := seed.Spec.InternalDomain()
	for _, domain := range []string{internal, "victim.dev." + internal, seed.Spec.Ingress.Domain} {
		env.Eventually(t, domain+" is reserved", func() (bool, error) {
			s := g.newShoot()
			s.Spec.DNS = &corev1beta1.DNS{Domain: &domain}
			err := g.Client.Create(g.ctx, s, client.DryRunAll)
			return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "which the landscape uses itself"), err
		})
	}
}

func TestShootReservesForItsNodes(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	g.Create(t, shoot)
	r := shoot.Spec.Kubernetes.Kubelet.KubeReserved
	if r == nil || r.CPU.String() != "80m" || r.Memory.String() != "1Gi" || r.PID.String() != "20k" {
		t.Errorf("reserved: %+v", r)
	}
}

func TestShootReferences(t *testing.T) {
	g := newGarden(t)
	shoot := g.newShoot()
	server := &corev1beta1.KubeAPIServerConfig{
		AuditConfig: &corev1beta1.AuditConfig{
			AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "audit"}},
		},
		StructuredAuthentication: &corev1beta1.StructuredAuthentication{ConfigMapName: "authn"},
		AdmissionPlugins: []corev1beta1.AdmissionPlugin{{
			Name: "PodNodeSelector", KubeconfigSecretName: ptr.To("hook"),
		}},
	}
	shoot.Spec.Kubernetes.KubeAPIServer = server
	ref := corev1beta1.NamedResourceReference{Name: "hook"}
	ref.ResourceRef.APIVersion, ref.ResourceRef.Kind, ref.ResourceRef.Name = "v1", "Secret", "hook"
	shoot.Spec.Resources = []corev1beta1.NamedResourceReference{ref}
	err := g.Client.Create(g.ctx, shoot.DeepCopy())
	for _, text := range []string{
		"configMapRef.name", "structuredAuthentication.configMapName", "spec.resources[0].resourceRef",
		"kubeconfigSecretName",
	} {
		refuse(t, "what is not there", err, apierrors.IsForbidden, text)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "hook"}}
	audit := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "audit"}}
	authentication := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "authn"}}
	audit.Data = map[string]string{"policy": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]"}
	g.Create(t, secret, audit, authentication)
	err = g.Client.Create(g.ctx, shoot.DeepCopy())
	for _, text := range []string{
		`must have the key "kubeconfig"`, `must have the key "config.yaml"`, `rules[0].level: Unsupported value: "All"`,
	} {
		refuse(t, "wrong content", err, apierrors.IsForbidden, text)
	}
	g.mustPatch(secret, `{"stringData":{"kubeconfig":"x"}}`)
	g.mustPatch(audit, `{"data":{"policy":"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"}}`)
	g.mustPatch(authentication,
		`{"data":{"config.yaml":"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration"}}`)
	g.Create(t, shoot)
	g.mustPatch(audit, `{"data":null}`)
	g.mustPatch(shoot, `{"spec":{"purpose":"testing"}}`) // The reference has not changed.
	refuse(t, "another API server",
		g.patch(shoot,
			`{"spec":{"kubernetes":{"kubeAPIServer":{"auditConfig":{"auditPolicy":{"configMapRef":{"name":"authn"}}}}}}}`),
		apierrors.IsForbidden, `must have the key "policy"`)
}

func TestCredentialsBindingsOfAShoot(t *testing.T) {
	g := newGarden(t)
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "other"}}
	otherBinding := &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: g.namespace, Name: "other"},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "local"},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "other", Namespace: g.namespace},
	}
	old := &corev1beta1.SecretBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "old"}, SecretRef: corev1.SecretReference{Name: "cloud"},
		Provider: &corev1beta1.SecretBindingProvider{Type: "local"},
	}
	g.Create(t, other, otherBinding, old)
	shoot := g.newShoot()
	shoot.Spec.CredentialsBindingName, shoot.Spec.SecretBindingName = nil, ptr.To("old")
	g.Create(t, shoot)
	to := func(name string) string {
		return `{"spec":{"secretBindingName":null,"credentialsBindingName":"` + name + `"}}`
	}
	refuse(t, "migration to other credentials", g.patch(shoot, to("other")), apierrors.IsForbidden,
		"must refer to Secret "+g.namespace+"/cloud")
	g.mustPatch(shoot, to("cloud"))
	g.mustPatch(shoot, to("other"))

	for _, step := range []struct {
		name, finalizers string
		refused          bool
	}{{"cloud", "[]", false}, {"other", "[]", true}} {
		binding := &securityv1alpha1.CredentialsBinding{ObjectMeta: metav1.ObjectMeta{
			Namespace: g.namespace, Name: step.name,
		}}
		g.mustPatch(binding, `{"metadata":{"finalizers":["gardener"]}}`)
		err := g.patch(binding, `{"metadata":{"finalizers":`+step.finalizers+`}}`)
		if apierrors.IsForbidden(err) != step.refused || !step.refused && err != nil {
			t.Errorf("finalizer of %s: %v", step.name, err)
		}
	}
	refuse(t, "a managed issuer",
		g.patch(shoot, `{"metadata":{"annotations":{"authentication.gardener.cloud/issuer":"managed"}}}`),
		apierrors.IsForbidden, "manages no issuers")
	g.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: corev1beta1.GardenNamespace, Name: "issuer",
		Labels: map[string]string{"gardener.cloud/role": "shoot-service-account-issuer"},
	}})
	g.mustPatch(shoot, `{"metadata":{"annotations":{"authentication.gardener.cloud/issuer":"managed"}}}`)
	refuse(t, "giving it up", g.patch(shoot, `{"metadata":{"annotations":{"authentication.gardener.cloud/issuer":null}}}`),
		apierrors.IsForbidden, "cannot be removed")
}

func TestCredentialsFitTheProvider(t *testing.T) {
	g := newGarden(t)
	identity := &securityv1alpha1.WorkloadIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "wi"},
		Spec: securityv1alpha1.WorkloadIdentitySpec{
			Audiences: []string{"a"}, TargetSystem: securityv1alpha1.TargetSystem{Type: "aws"},
		},
	}
	g.Create(t, identity)
	ref := corev1.ObjectReference{
		APIVersion: "security.gardener.cloud/v1alpha1", Kind: "WorkloadIdentity", Name: "wi", Namespace: g.namespace,
	}
	binding := func(name, provider string, ref corev1.ObjectReference) *securityv1alpha1.CredentialsBinding {
		return &securityv1alpha1.CredentialsBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: name},
			Provider:   securityv1alpha1.CredentialsBindingProvider{Type: provider}, CredentialsRef: ref,
		}
	}
	refuse(t, "an identity for another target", g.Client.Create(g.ctx, binding("a", "local", ref)), apierrors.IsForbidden,
		"targetSystem.type")
	g.Create(t, binding("a", "aws", ref))
	bucket := &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("bucket-")}}
	bucket.Spec.Provider = corev1beta1.BackupBucketProvider{Type: "local", Region: "home"}
	bucket.Spec.CredentialsRef = &ref
	seed := newSeed()
	g.Create(t, seed)
	bucket.Spec.SeedName = &seed.Name
	refuse(t, "an identity of a bucket", g.Client.Create(g.ctx, bucket), apierrors.IsForbidden, "targetSystem.type")
	bucket.Spec.CredentialsRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: g.namespace, Name: "cloud",
	}
	g.Create(t, bucket)
	entry := &corev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "e"},
		Spec:       corev1beta1.BackupEntrySpec{BucketName: bucket.Name, SeedName: &seed.Name},
	}
	g.Create(t, entry)
	if entry.Labels["provider.extensions.gardener.cloud/local"] != "true" {
		t.Errorf("labels of the entry: %v", entry.Labels)
	}
	refuse(t, "deletion of a bucket in use", g.Client.Delete(g.ctx, bucket), apierrors.IsForbidden, entry.Name)

	// A provider validates credentials with a policy or webhook for Secrets with its label.
	picky := env.Name("picky")
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: picky}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"},
				},
			},
		}}}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{
		Expression: `!has(object.metadata.labels) || !('provider.shoot.gardener.cloud/` + picky +
			`' in object.metadata.labels) || has(object.data) && 'token' in object.data`,
		Message: "the key token is missing",
	}}
	g.Create(t, policy, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: picky},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: picky, ValidationActions: []admissionregistrationv1.ValidationAction{"Deny"},
		},
	})
	cloud := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "cloud", Namespace: g.namespace}
	env.Eventually(t, "the provider rejects the credentials", func() (bool, error) {
		err := g.Client.Create(g.ctx, binding("b", picky, cloud), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "the key token is missing"), err
	})
	g.mustPatch(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "cloud"}},
		`{"stringData":{"token":"x"}}`)
	g.Create(t, binding("b", picky, cloud))
	secrets := &corev1.SecretList{}
	if err := g.Client.List(g.ctx, secrets, client.InNamespace(g.namespace),
		client.HasLabels{"provider.shoot.gardener.cloud/" + picky}); err != nil || len(secrets.Items) > 0 {
		t.Errorf("%d copies of credentials are left, %v", len(secrets.Items), err)
	}
}

func TestSeedAndRegistrationReferences(t *testing.T) {
	g := newGarden(t)
	seed := newSeed()
	ref := corev1beta1.NamedResourceReference{Name: "a"}
	ref.ResourceRef.APIVersion, ref.ResourceRef.Kind, ref.ResourceRef.Name = "v1", "Secret", "of-the-seed"
	seed.Spec.Resources = []corev1beta1.NamedResourceReference{ref}
	refuse(t, "resources of a Seed", g.Client.Create(g.ctx, seed.DeepCopy()), apierrors.IsForbidden,
		"spec.resources[0].resourceRef")
	g.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: "of-the-seed"}},
		seed)
	if seed.Labels[corev1beta1.LabelPrefixSeedName+seed.Name] != "true" {
		t.Errorf("labels of the Seed: %v", seed.Labels)
	}
	registration := &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: env.Name("r-")}}
	registration.Spec.Deployment = &corev1beta1.ControllerRegistrationDeployment{
		DeploymentRefs: []corev1beta1.DeploymentRef{{Name: "none"}},
	}
	refuse(t, "a missing ControllerDeployment", g.Client.Create(g.ctx, registration), apierrors.IsForbidden,
		"deploymentRefs[0].name")
}

func TestQuotaLetsThoseThroughWhoTakeLess(t *testing.T) {
	g := newGarden(t)
	quota := &corev1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "q"}}
	quota.Spec.Scope = corev1.ObjectReference{APIVersion: "core.gardener.cloud/v1beta1", Kind: "Project"}
	quota.Spec.Metrics = corev1.ResourceList{"cpu": resource.MustParse("5")}
	g.Create(t, quota)
	binding := g.binding.DeepCopy()
	binding.ObjectMeta = metav1.ObjectMeta{Namespace: g.namespace, Name: "limited"}
	binding.Quotas = []corev1.ObjectReference{{Namespace: g.namespace, Name: "q"}}
	g.Create(t, binding)
	limited := func(maximum int32) *corev1beta1.Shoot {
		s := g.newShoot()
		s.Spec.CredentialsBindingName, s.Spec.Provider.Workers[0].Maximum = ptr.To("limited"), maximum
		return s
	}
	shoot := limited(4)
	g.Create(t, shoot)
	env.Eventually(t, "the quota is used up", func() (bool, error) {
		err := g.Client.Create(g.ctx, limited(2), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "quota limits exceeded"), err
	})
	g.mustPatch(quota, `{"spec":{"metrics":{"cpu":"1"}}}`)
	size := func(maximum int32) error {
		g.get(shoot)
		shoot.Spec.Provider.Workers[0].Maximum = maximum
		return g.Client.Update(g.ctx, shoot)
	}
	env.Eventually(t, "more is refused", func() (bool, error) {
		err := size(5)
		return apierrors.IsForbidden(err), err
	})
	if err := size(3); err != nil {
		t.Errorf("less, but still above the quota: %v", err)
	}
}
