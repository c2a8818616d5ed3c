package resourcereference

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/golden"
)

const dev = "garden-dev"

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

const authorization = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: Webhook, name: w, webhook: {timeout: 3s, failurePolicy: Deny, subjectAccessReviewVersion: v1, authorizedTTL: 1s, unauthorizedTTL: 1s}}
`

func webhookKubeconfig(scheme, user string) string {
	return `current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "` + scheme + `://webhook.example.org"}}]
users: [{name: a, user: {` + user + `}}]
`
}

// garden has one object of most kinds. The user may get all of them except the Secret "hidden".
func garden(t *testing.T) *plugin {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, corev1beta1.AddToScheme, gardencorev1.AddToScheme, securityv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	quota := func(name, kind string) *corev1beta1.Quota {
		return &corev1beta1.Quota{
			ObjectMeta: in(dev, name), Spec: corev1beta1.QuotaSpec{Scope: corev1.ObjectReference{Kind: kind}},
		}
	}
	profile := &corev1beta1.CloudProfile{ObjectMeta: in("", "local")}
	child := &corev1beta1.NamespacedCloudProfile{ObjectMeta: in(dev, "mine")}
	child.Spec.Parent.Name = profile.Name
	child.Spec.MachineImages = []corev1beta1.MachineImage{{Name: "own"}}
	shoot := &corev1beta1.Shoot{ObjectMeta: in(dev, "apple")}
	shoot.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: profile.Name}
	shoot.Spec.Kubernetes.Version = "1.36.3"
	shoot.Spec.CredentialsBindingName = ptr.To("used")
	shoot.Spec.Provider = corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{{
		Minimum: 2, Machine: corev1beta1.Machine{Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0.0")}},
	}}}
	older := shoot.DeepCopy()
	older.Name, older.Spec.CredentialsBindingName, older.Spec.SecretBindingName = "plum", nil, ptr.To("used")
	older.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "other"}
	own := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		profile, child, shoot, older, quota("project", "Project"), quota("another", "Project"), quota("secret", "Secret"),
		&corev1beta1.Project{ObjectMeta: in("", "dev"), Spec: corev1beta1.ProjectSpec{Namespace: ptr.To(dev)}},
		&corev1beta1.BackupEntry{ObjectMeta: in(dev, "entry"), Spec: corev1beta1.BackupEntrySpec{BucketName: "bucket"}},
		&securityv1alpha1.WorkloadIdentity{
			ObjectMeta: in(dev, "aws"), Spec: securityv1alpha1.WorkloadIdentitySpec{
				TargetSystem: securityv1alpha1.TargetSystem{Type: "aws"},
			},
		},
	)
	// The names of indexes are those of the cache, and those of field selectors of the server.
	index := func(object client.Object, name string, keys func(client.Object) []string) {
		own = own.WithIndex(object, name, keys)
	}
	for _, name := range []string{"namespace", "spec.namespace"} {
		index(&corev1beta1.Project{}, name,
			func(o client.Object) []string { return []string{*o.(*corev1beta1.Project).Spec.Namespace} })
	}
	index(&corev1beta1.Shoot{}, "binding", func(o client.Object) []string {
		if name := o.(*corev1beta1.Shoot).Spec.SecretBindingName; name != nil {
			return []string{hortusadmission.BindingKey(true, *name)}
		}
		return []string{hortusadmission.BindingKey(false, *o.(*corev1beta1.Shoot).Spec.CredentialsBindingName)}
	})
	index(&corev1beta1.Shoot{}, "spec.cloudProfile.Name",
		func(o client.Object) []string { return []string{o.(*corev1beta1.Shoot).Spec.CloudProfile.Name} })
	index(&corev1beta1.Shoot{}, "spec.cloudProfile.Kind",
		func(o client.Object) []string { return []string{o.(*corev1beta1.Shoot).Spec.CloudProfile.Kind} })
	index(&corev1beta1.BackupEntry{}, "spec.bucketName",
		func(o client.Object) []string { return []string{o.(*corev1beta1.BackupEntry).Spec.BucketName} })

	kube := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Secret{ObjectMeta: in(dev, "good")}, &corev1.Secret{ObjectMeta: in(dev, "hidden")},
		&corev1.Secret{ObjectMeta: in(dev, "refused"), Data: map[string][]byte{"token": []byte("short")}},
		&corev1.Secret{
			ObjectMeta: in(dev, "webhook"),
			Data:       map[string][]byte{"kubeconfig": []byte(webhookKubeconfig("https", "token: x"))},
		},
		&corev1.Secret{
			ObjectMeta: in(dev, "unencrypted"),
			Data:       map[string][]byte{"kubeconfig": []byte(webhookKubeconfig("http", "token: x"))},
		},
		&corev1.Secret{
			ObjectMeta: in(dev, "files"), Data: map[string][]byte{
				"kubeconfig": []byte(webhookKubeconfig("https", "tokenFile: /token, exec: {command: sh}")),
			},
		},
		&corev1.ConfigMap{ObjectMeta: in(dev, "authorization"), Data: map[string]string{"config.yaml": authorization}},
		&corev1.ConfigMap{
			ObjectMeta: in(dev, "policy"), Data: map[string]string{"policy": "apiVersion: audit.k8s.io/v1\nkind: Policy\n"},
		},
	).Build()
	webhook := interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object,
		_ ...client.CreateOption) error {
		if secret := o.(*corev1.Secret); len(secret.Data) > 0 {
			return apierrors.NewForbidden(corev1.Resource("secrets"), secret.GenerateName,
				errors.New("admission webhook denied the request: token is too short"))
		}
		return nil
	}}
	live := own.Build()
	return &plugin{hortusadmission.Base{Handler: admission.NewHandler(admission.Create, admission.Update,
		admission.Delete), Objects: &hortusadmission.Objects{
		Cached: live, Live: live, Garden: kube, DryRun: interceptor.NewClient(kube, webhook), DryRunOwn: live,
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string,
			error) {
			if a.GetName() == "hidden" {
				return authorizer.DecisionDeny, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		}),
	}}}
}

// Every rule in the plugin's rows of docs/controllers/admission.md.
func TestRules(t *testing.T) {
	shoot := func(changes ...func(*corev1beta1.ShootSpec)) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{ObjectMeta: in(dev, "pear")}
		s.Spec.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{}
		for _, change := range changes {
			change(&s.Spec)
		}
		return s
	}
	server := func(change func(*corev1beta1.KubeAPIServerConfig)) *corev1beta1.Shoot {
		return shoot(func(s *corev1beta1.ShootSpec) { change(s.Kubernetes.KubeAPIServer) })
	}
	resource := func(kind, name string) *corev1beta1.Shoot {
		return shoot(func(s *corev1beta1.ShootSpec) {
			s.Resources = []corev1beta1.NamedResourceReference{named("r", kind, name)}
		})
	}
	audit := func(name string) *corev1beta1.Shoot {
		return server(func(s *corev1beta1.KubeAPIServerConfig) {
			s.AuditConfig = &corev1beta1.AuditConfig{
				AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: name}},
			}
		})
	}
	authorized := func(secret string) *corev1beta1.Shoot {
		return server(func(s *corev1beta1.KubeAPIServerConfig) {
			s.StructuredAuthorization = &corev1beta1.StructuredAuthorization{
				ConfigMapName: "authorization",
				Kubeconfigs:   []corev1beta1.AuthorizerKubeconfigReference{{AuthorizerName: "w", SecretName: secret}},
			}
		})
	}
	labelled := func(s *corev1beta1.Shoot) *corev1beta1.Shoot {
		s.Labels = map[string]string{"a": "b"}
		return s
	}
	binding := func(name, secret string, quotas ...string) *securityv1alpha1.CredentialsBinding {
		b := &securityv1alpha1.CredentialsBinding{
			ObjectMeta: in(dev, name), Provider: securityv1alpha1.CredentialsBindingProvider{Type: "local"},
		}
		b.CredentialsRef = local(dev, "v1", "Secret", secret)
		for _, quota := range quotas {
			b.Quotas = append(b.Quotas, corev1.ObjectReference{Namespace: dev, Name: quota})
		}
		return b
	}
	forProvider := func(b *securityv1alpha1.CredentialsBinding, provider string) *securityv1alpha1.CredentialsBinding {
		b.Provider.Type = provider
		return b
	}
	older := func(provider string) *corev1beta1.SecretBinding {
		b := &corev1beta1.SecretBinding{
			ObjectMeta: in(dev, "used"), SecretRef: corev1.SecretReference{Namespace: dev, Name: "good"},
		}
		if provider != "" {
			b.Provider = &corev1beta1.SecretBindingProvider{Type: provider}
		}
		return b
	}
	identity := binding("new", "")
	identity.CredentialsRef = local(dev, securityv1alpha1.SchemeGroupVersion.String(), "WorkloadIdentity", "aws")
	profile := func(change func(*corev1beta1.CloudProfileSpec)) *corev1beta1.CloudProfile {
		p := &corev1beta1.CloudProfile{ObjectMeta: in("", "local")}
		p.Spec.Kubernetes.Versions = []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}
		p.Spec.MachineImages = []corev1beta1.MachineImage{{
			Name: "os", Versions: []corev1beta1.MachineImageVersion{
				{ExpirableVersion: corev1beta1.ExpirableVersion{Version: "1.0.0"}},
			},
		}}
		change(&p.Spec)
		return p
	}
	asBefore := profile(func(*corev1beta1.CloudProfileSpec) {})
	registration := &corev1beta1.ControllerRegistration{ObjectMeta: in("", "dns")}
	registration.Spec.Deployment = &corev1beta1.ControllerRegistrationDeployment{
		DeploymentRefs: []corev1beta1.DeploymentRef{{Name: "none"}},
	}
	seed := &corev1beta1.Seed{ObjectMeta: in("", "x")}
	seed.Spec.Resources = []corev1beta1.NamedResourceReference{named("r", "ConfigMap", "none")}

	messages := map[string]error{}
	for name, tc := range map[string]struct {
		object, old client.Object // nil means a deletion.
		allowed     bool
	}{
		"BackupBucket: an unknown Seed": {
			object: &corev1beta1.BackupBucket{Spec: corev1beta1.BackupBucketSpec{SeedName: ptr.To("none")}},
		},
		"BackupBucket: deletion in use": {old: &corev1beta1.BackupBucket{ObjectMeta: in("", "bucket")}},
		"BackupBucket: deletion": {
			old: &corev1beta1.BackupBucket{ObjectMeta: in("", "empty")}, allowed: true,
		},
		"BackupEntry: an unknown bucket and Seed": {object: &corev1beta1.BackupEntry{
			ObjectMeta: in(dev, "e"), Spec: corev1beta1.BackupEntrySpec{BucketName: "none", SeedName: ptr.To("none")},
		}},
		"CloudProfile: a version in use goes": {
			object: profile(func(s *corev1beta1.CloudProfileSpec) { s.Kubernetes.Versions = nil }), old: asBefore,
		},
		"CloudProfile: an image in use goes": {
			object: profile(func(s *corev1beta1.CloudProfileSpec) { s.MachineImages = nil }), old: asBefore,
		},
		"CloudProfile: an image that a child has": {object: profile(func(s *corev1beta1.CloudProfileSpec) {
			s.MachineImages = append(s.MachineImages, corev1beta1.MachineImage{Name: "own"})
		}), old: asBefore},
		"CloudProfile: too few nodes": {
			object: profile(func(s *corev1beta1.CloudProfileSpec) {
				s.Limits = &corev1beta1.Limits{
					MaxNodesTotal: ptr.To[int32](1),
				}
			}), old: asBefore,
		},
		"ControllerRegistration: an unknown deployment": {object: registration},
		"CredentialsBinding: good credentials":          {object: binding("new", "good", "project", "secret"), allowed: true},
		"CredentialsBinding: unknown credentials":       {object: binding("new", "none")},
		"CredentialsBinding: hidden credentials":        {object: binding("new", "hidden")},
		"CredentialsBinding: refused credentials":       {object: binding("new", "refused")},
		"CredentialsBinding: an unknown quota":          {object: binding("new", "good", "none")},
		"CredentialsBinding: a hidden quota":            {object: binding("new", "good", "hidden")},
		"CredentialsBinding: two quotas of a project":   {object: binding("new", "good", "project", "another")},
		"CredentialsBinding: another provider":          {object: forProvider(binding("used", "good"), "aws")},
		"CredentialsBinding: another target":            {object: identity},
		"Project: a namespace of another": {object: &corev1beta1.Project{
			ObjectMeta: in("", "other"), Spec: corev1beta1.ProjectSpec{Namespace: ptr.To(dev)},
		}},
		"SecretBinding: the provider of its users": {object: older("local"), old: older(""), allowed: true},
		"SecretBinding: one of several providers":  {object: older("aws,local"), old: older(""), allowed: true},
		"SecretBinding: another provider":          {object: older("aws"), old: older("")},
		"Seed: an unknown resource":                {object: seed},
		"Shoot: nothing is there": {object: shoot(func(s *corev1beta1.ShootSpec) {
			s.SeedName, s.SecretBindingName, s.CredentialsBindingName, s.ExposureClassName = ptr.To("none"), ptr.To("none"),
				ptr.To("none"), ptr.To("none")
		})},
		"Shoot: an unknown resource": {object: resource("Secret", "none")},
		"Shoot: a hidden resource":   {object: resource("Secret", "hidden")},
		"Shoot: a resource":          {object: resource("Secret", "good"), allowed: true},
		"Shoot: an existing resource": {
			object: resource("Secret", "none"), old: resource("Secret", "none"), allowed: true,
		},
		"Shoot: an unknown audit policy": {object: audit("none")},
		"Shoot: a hidden audit policy":   {object: audit("hidden")},
		"Shoot: a wrong audit policy":    {object: audit("policy")},
		"Shoot: an unknown authentication": {object: server(func(s *corev1beta1.KubeAPIServerConfig) {
			s.StructuredAuthentication = &corev1beta1.StructuredAuthentication{ConfigMapName: "none"}
		})},
		"Shoot: authentication without a file": {object: server(func(s *corev1beta1.KubeAPIServerConfig) {
			s.StructuredAuthentication = &corev1beta1.StructuredAuthentication{ConfigMapName: "policy"}
		})},
		"Shoot: an unknown authorization": {object: server(func(s *corev1beta1.KubeAPIServerConfig) {
			s.StructuredAuthorization = &corev1beta1.StructuredAuthorization{
				ConfigMapName: "none", Kubeconfigs: []corev1beta1.AuthorizerKubeconfigReference{
					{AuthorizerName: "w", SecretName: "none"},
				},
			}
		})},
		"Shoot: authorization with a kubeconfig":         {object: authorized("webhook"), allowed: true},
		"Shoot: authorization without a kubeconfig":      {object: authorized("good")},
		"Shoot: authorization with a hidden kubeconfig":  {object: authorized("hidden")},
		"Shoot: authorization with files and programs":   {object: authorized("files")},
		"Shoot: authorization by an unencrypted webhook": {object: authorized("unencrypted")},
		"Shoot: existing authorization, whatever it contains now": {
			object: labelled(authorized("files")), old: authorized("files"), allowed: true,
		},
		"Shoot: an admission plugin without kubeconfig": {object: server(func(s *corev1beta1.KubeAPIServerConfig) {
			s.AdmissionPlugins = []corev1beta1.AdmissionPlugin{{
				Name: "ImagePolicyWebhook", KubeconfigSecretName: ptr.To("good"),
			}}
		})},
		"Shoot: unknown credentials for DNS": {object: shoot(func(s *corev1beta1.ShootSpec) {
			s.DNS = &corev1beta1.DNS{
				Providers: []corev1beta1.DNSProvider{{CredentialsRef: &autoscalingv1.CrossVersionObjectReference{
					APIVersion: "v1", Kind: "Secret", Name: "none",
				}}},
			}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			operation, object, old := admission.Create, runtime.Object(tc.object), runtime.Object(tc.old)
			kind, _, _ := strings.Cut(name, ":")
			if tc.object == nil {
				operation, object = admission.Delete, nil
			} else if tc.old != nil {
				operation = admission.Update
			} else {
				old = nil
			}
			a := admission.NewAttributesRecord(object, old, schema.GroupVersionKind{Kind: kind}, "", "an-object",
				schema.GroupVersionResource{Resource: strings.ToLower(kind) + "s"}, "", operation, nil, false,
				&user.DefaultInfo{Name: "alice"})
			err := garden(t).Validate(t.Context(), a, nil)
			if (err == nil) != tc.allowed || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("Validate() = %v", err)
			}
			messages[name] = err
		})
	}
	golden.Messages(t, messages)
}

// A version that thousands of Shoots use must not cause an error of megabytes.
func TestUsersOfAVersionAreNamedInModeration(t *testing.T) {
	shoots := make([]corev1beta1.Shoot, 5000)
	for i := range shoots {
		shoots[i].ObjectMeta = in(dev, fmt.Sprintf("s%d", i))
		shoots[i].Spec.Kubernetes.Version = "1.36.3"
	}
	gone := removedFrom(&corev1beta1.CloudProfileSpec{}, &corev1beta1.CloudProfileSpec{
		Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
	})
	errs := usedByShoots(gone, nil, shoots)
	if len(errs) != maxUsers+1 {
		t.Errorf("%d errors, want %d", len(errs), maxUsers+1)
	}
	golden.Messages(t, map[string]error{"the last": errs[len(errs)-1]})
}
