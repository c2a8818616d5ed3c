package seedauthorizer

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}
}

func secretReference(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: name}
}

func shootOn(namespace, name, spec, status string, change ...func(*corev1beta1.ShootSpec)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{ObjectMeta: named(namespace, name)}
	if spec != "" {
		s.Spec.SeedName = &spec
	}
	if status != "" {
		s.Status.SeedName = &status
	}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

// objects of a garden with the Seeds a, b and c, and the ManagedSeeds b-managed on a and c on b.
func objects() []runtime.Object {
	seed := func(name, credentials string) *corev1beta1.Seed {
		return &corev1beta1.Seed{
			ObjectMeta: named("", name), Spec: corev1beta1.SeedSpec{
				Backup: &corev1beta1.Backup{CredentialsRef: secretReference("garden", credentials)},
			},
		}
	}
	installation := func(name, seed, deployment string) *corev1beta1.ControllerInstallation {
		return &corev1beta1.ControllerInstallation{ObjectMeta: named("", name), Spec: corev1beta1.ControllerInstallationSpec{
			SeedRef: &corev1.ObjectReference{Name: seed}, DeploymentRef: &corev1.ObjectReference{Name: deployment}}}
	}
	deployment := func(name, pullSecret, ca string) *corev1v1.ControllerDeployment {
		return &corev1v1.ControllerDeployment{ObjectMeta: named("", name), Helm: &corev1v1.HelmControllerDeployment{
			OCIRepository: &corev1v1.OCIRepository{
				PullSecretRef:     &corev1.LocalObjectReference{Name: pullSecret},
				CABundleSecretRef: &corev1.LocalObjectReference{Name: ca},
			}}, Resources: []corev1v1.NamedResourceReference{
			{Name: "login", ResourceRef: autoscalingv1.CrossVersionObjectReference{
				APIVersion: "v1", Kind: "Secret", Name: name + "-login",
			}},
			{Name: "places", ResourceRef: autoscalingv1.CrossVersionObjectReference{
				APIVersion: "v1", Kind: "ConfigMap", Name: name + "-places",
			}},
		}}
	}
	bucket := func(name, seed, secret string) *corev1beta1.BackupBucket {
		return &corev1beta1.BackupBucket{ObjectMeta: named("", name),
			Spec: corev1beta1.BackupBucketSpec{SeedName: &seed, CredentialsRef: secretReference("garden", secret)},
			Status: corev1beta1.BackupBucketStatus{GeneratedSecretRef: &corev1.SecretReference{
				Namespace: "garden", Name: "generated-bucket-" + name,
			}}}
	}
	entry := func(namespace, name, bucket, spec, status string) *corev1beta1.BackupEntry {
		return &corev1beta1.BackupEntry{
			ObjectMeta: named(namespace, name), Spec: corev1beta1.BackupEntrySpec{BucketName: bucket, SeedName: &spec},
			Status: corev1beta1.BackupEntryStatus{SeedName: &status},
		}
	}
	managed := func(name, shoot, config string) *seedmanagementv1alpha1.ManagedSeed {
		return &seedmanagementv1alpha1.ManagedSeed{ObjectMeta: named("garden", name),
			Spec: seedmanagementv1alpha1.ManagedSeedSpec{
				Shoot:     &seedmanagementv1alpha1.Shoot{Name: shoot},
				Gardenlet: seedmanagementv1alpha1.GardenletConfig{Config: &runtime.RawExtension{Raw: []byte(config)}}}}
	}
	gardenlet := func(name string) *seedmanagementv1alpha1.Gardenlet {
		g := &seedmanagementv1alpha1.Gardenlet{ObjectMeta: named("garden", name)}
		g.Spec.Deployment.Helm.OCIRepository.PullSecretRef = &corev1.LocalObjectReference{Name: name + "-chart"}
		return g
	}
	resource := func(kind, name string) corev1beta1.NamedResourceReference {
		return corev1beta1.NamedResourceReference{
			Name: name, ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: name},
		}
	}
	project := func(name string) *corev1beta1.Project {
		return &corev1beta1.Project{
			ObjectMeta: named("", name), Spec: corev1beta1.ProjectSpec{Namespace: ptr.To("garden-" + name)},
		}
	}
	binding := func(name, secret string) *securityv1alpha1.CredentialsBinding {
		return &securityv1alpha1.CredentialsBinding{
			ObjectMeta: named("garden-shared", name), CredentialsRef: *secretReference("", secret),
		}
	}
	identified := func(name, identity string) *securityv1alpha1.CredentialsBinding {
		return &securityv1alpha1.CredentialsBinding{ObjectMeta: named("garden-shared", name),
			CredentialsRef: corev1.ObjectReference{
				APIVersion: "security.gardener.cloud/v1alpha1", Kind: "WorkloadIdentity", Namespace: "garden-shared",
				Name: identity,
			}}
	}
	bound := func(name string) func(*corev1beta1.ShootSpec) {
		return func(s *corev1beta1.ShootSpec) { s.CredentialsBindingName = &name }
	}
	return []runtime.Object{
		project("a"), project("b"), project("shared"),
		seed("a", "a-backup"), seed("b", "b-backup"), seed("c", "c-backup"), seed("b-managed", "b-managed-backup"),
		shootOn("garden-a", "a-shoot", "a", "a", func(s *corev1beta1.ShootSpec) {
			s.SecretBindingName = ptr.To("a-binding")
			s.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "NamespacedCloudProfile", Name: "a-profile"}
			s.Resources = []corev1beta1.NamedResourceReference{resource("Secret", "a-resource"),
				resource("ConfigMap", "a-resource"), resource("Deployment", "unused"),
				{Name: "i", ResourceRef: autoscalingv1.CrossVersionObjectReference{
					APIVersion: "security.gardener.cloud/v1alpha1", Kind: "WorkloadIdentity", Name: "a-identity",
				}}}
			s.DNS = &corev1beta1.DNS{Providers: []corev1beta1.DNSProvider{{SecretName: ptr.To("a-dns")}}}
			s.Kubernetes.KubeAPIServer = &corev1beta1.KubeAPIServerConfig{
				AuditConfig: &corev1beta1.AuditConfig{
					AuditPolicy: &corev1beta1.AuditPolicy{ConfigMapRef: &corev1.ObjectReference{Name: "a-audit"}},
				},
				StructuredAuthentication: &corev1beta1.StructuredAuthentication{ConfigMapName: "a-authentication"},
				StructuredAuthorization: &corev1beta1.StructuredAuthorization{ConfigMapName: "a-authorization",
					Kubeconfigs: []corev1beta1.AuthorizerKubeconfigReference{{AuthorizerName: "w", SecretName: "a-authorizer"}}},
			}
		}),
		shootOn("garden-a", "moving", "b", "a"),
		shootOn("garden-b", "b-shoot", "b", "b",
			func(s *corev1beta1.ShootSpec) { s.SecretBindingName = ptr.To("b-binding") }),
		shootOn("garden-shared", "a-shared", "a", "a", bound("binding")), shootOn("garden-shared", "b-shared", "b", "b",
			bound("b-binding")), shootOn("garden-shared", "b-too", "b", "b", bound("binding")),
		shootOn("garden-shared", "unscheduled", "", "", bound("unused")),
		&corev1beta1.SecretBinding{
			ObjectMeta: named("garden-a", "a-binding"),
			SecretRef:  corev1.SecretReference{Namespace: "garden-a", Name: "a-cloud"},
		},
		&corev1beta1.SecretBinding{
			ObjectMeta: named("garden-b", "b-binding"),
			SecretRef:  corev1.SecretReference{Namespace: "garden-b", Name: "b-cloud"},
		},
		binding("binding", "cloud"), binding("b-binding", "b-cloud"), binding("unused", "unused"),
		identified("a-identified", "a-identity"), identified("b-identified", "b-identity"),
		shootOn("garden-shared", "a-identified", "a", "a", bound("a-identified")),
		shootOn("garden-shared", "b-identified", "b", "b", bound("b-identified")),
		installation("a-installation", "a", "a-deployment"), installation("b-installation", "b", "b-deployment"),
		deployment("a-deployment", "a-registry", "ca-of-registries"),
		deployment("b-deployment", "b-registry", "ca-of-registries"),
		bucket("a-bucket", "a", "a-backup"), bucket("b-bucket", "b", "b-backup"), bucket("b-old-bucket", "b", "b-old-cloud"),
		entry("garden-a", "a-entry", "a-bucket", "a", "a"), entry("garden-b", "b-entry", "b-bucket", "b", "b"),
		entry("garden-a", "moving-entry", "b-old-bucket", "a", "b"), // Was moved from b and is still in its bucket.
		&operationsv1alpha1.Bastion{
			ObjectMeta: named("garden-a", "a-bastion"), Spec: operationsv1alpha1.BastionSpec{SeedName: ptr.To("a")},
		},
		&operationsv1alpha1.Bastion{
			ObjectMeta: named("garden-b", "b-bastion"), Spec: operationsv1alpha1.BastionSpec{SeedName: ptr.To("b")},
		},
		shootOn("garden", "a-host", "a", "a"), shootOn("garden", "b-host", "b", "b"),
		managed("b-managed", "a-host",
			`{"seedConfig":{"spec":{"backup":{"credentialsRef":{"apiVersion":"v1","kind":"Secret","namespace":"garden","name":"b-managed-backup"}}}}}`),
		managed("c", "b-host", `{}`),
		gardenlet("a"), gardenlet("b"),
		&certificatesv1.CertificateSigningRequest{
			ObjectMeta: named("", "a-request"),
			Spec:       certificatesv1.CertificateSigningRequestSpec{Username: corev1beta1.SeedUserPrefix + "a"},
		},
		&certificatesv1.CertificateSigningRequest{
			ObjectMeta: named("", "b-request"),
			Spec:       certificatesv1.CertificateSigningRequestSpec{Username: corev1beta1.SeedUserPrefix + "b"},
		},
	}
}

func world(t *testing.T) *Graph {
	t.Helper()
	g := NewGraph()
	for _, o := range objects() {
		ref, node, ok := Of(o)
		if !ok {
			t.Fatalf("%T has no place in the graph", o)
		}
		g.Set(ref, node)
	}
	return g
}
