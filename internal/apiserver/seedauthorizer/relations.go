package seedauthorizer

import (
	"encoding/json"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// Of returns an object's reference and relations; false for kinds that are not in the graph.
func Of(object runtime.Object) (Ref, Node, bool) {
	switch o := object.(type) {
	case *corev1beta1.Shoot:
		return Ref{Shoot, o.Namespace, o.Name}, ofShoot(o), true
	case *corev1beta1.Seed:
		return Ref{Seed, "", o.Name}, Node{Seeds: []string{o.Name}, UID: string(o.UID), Needs: ofSeedSpec(&o.Spec)}, true
	case *corev1beta1.SecretBinding:
		return Ref{SecretBinding, o.Namespace, o.Name}, Node{Needs: secretRef(&o.SecretRef, o.Namespace)}, true
	case *securityv1alpha1.CredentialsBinding:
		return Ref{CredentialsBinding, o.Namespace, o.Name}, Node{Needs: objectRef(&o.CredentialsRef, o.Namespace)}, true
	case *corev1beta1.Project:
		node := Node{}
		if o.Spec.Namespace != nil {
			node.With = []Ref{{Namespace, "", *o.Spec.Namespace}}
		}
		return Ref{Project, "", o.Name}, node, true
	case *corev1beta1.ControllerInstallation:
		node := Node{}
		if o.Spec.SeedRef != nil {
			node.Seeds = names(&o.Spec.SeedRef.Name)
		}
		if o.Spec.DeploymentRef != nil {
			node.Needs = []Ref{{ControllerDeployment, "", o.Spec.DeploymentRef.Name}}
		}
		return Ref{ControllerInstallation, "", o.Name}, node, true
	case *corev1v1.ControllerDeployment:
		return Ref{ControllerDeployment, "", o.Name}, Node{Needs: append(ofChart(o.Helm), ofResources(o.Resources)...)}, true
	case *corev1beta1.BackupBucket:
		needs := append(objectRef(o.Spec.CredentialsRef, ""), secretRef(o.Spec.SecretRef, "")...)
		return Ref{BackupBucket, "", o.Name},
			Node{Seeds: names(o.Spec.SeedName), Needs: append(needs, secretRef(o.Status.GeneratedSecretRef, "")...)}, true
	case *corev1beta1.BackupEntry:
		return Ref{BackupEntry, o.Namespace, o.Name}, Node{
			Seeds: names(o.Spec.SeedName, o.Status.SeedName), Needs: []Ref{{BackupBucket, "", o.Spec.BucketName}},
		}, true
	case *operationsv1alpha1.Bastion:
		return Ref{Bastion, o.Namespace, o.Name}, Node{Seeds: names(o.Spec.SeedName)}, true
	case *seedmanagementv1alpha1.ManagedSeed:
		return Ref{ManagedSeed, o.Namespace, o.Name}, ofManagedSeed(o), true
	case *seedmanagementv1alpha1.Gardenlet:
		needs := append(ofRepository(&o.Spec.Deployment.Helm.OCIRepository), ofConfig(o.Spec.Config)...)
		return Ref{Gardenlet, o.Namespace, o.Name}, Node{Seeds: []string{o.Name}, Needs: needs}, true
	case *certificatesv1.CertificateSigningRequest:
		node := Node{}
		if seed, ok := strings.CutPrefix(o.Spec.Username, corev1beta1.SeedUserPrefix); ok {
			node.Seeds = []string{seed}
		}
		return Ref{CertificateSigningRequest, "", o.Name}, node, true
	}
	return Ref{}, Node{}, false
}

// ofChart are the Secrets for a chart in a registry.
func ofChart(helm *corev1v1.HelmControllerDeployment) []Ref {
	if helm == nil || helm.OCIRepository == nil {
		return nil
	}
	return ofRepository(helm.OCIRepository)
}

func ofRepository(repository *corev1v1.OCIRepository) []Ref {
	var needs []Ref
	for _, secret := range []*corev1.LocalObjectReference{repository.PullSecretRef, repository.CABundleSecretRef} {
		if secret != nil && secret.Name != "" {
			needs = append(needs, Ref{Secret, corev1beta1.GardenNamespace, secret.Name})
		}
	}
	return needs
}

// ofResources are the objects whose values a chart gets.
func ofResources(resources []corev1v1.NamedResourceReference) []Ref {
	var needs []Ref
	for i := range resources {
		needs = append(needs, crossRef(&resources[i].ResourceRef, corev1beta1.GardenNamespace)...)
	}
	return needs
}

func ofShoot(s *corev1beta1.Shoot) Node {
	node := Node{Seeds: names(s.Spec.SeedName, s.Status.SeedName), UID: string(s.UID)}
	need := func(kind Kind, namespace, name string) {
		if name != "" {
			node.Needs = append(node.Needs, Ref{kind, namespace, name})
		}
	}
	need(Namespace, "", s.Namespace)
	if ref := s.Spec.CloudProfile; ref != nil && ref.Kind == corev1beta1.NamespacedCloudProfileKind {
		need(NamespacedCloudProfile, s.Namespace, ref.Name)
	}
	need(SecretBinding, s.Namespace, ptr.Deref(s.Spec.SecretBindingName, ""))
	need(CredentialsBinding, s.Namespace, ptr.Deref(s.Spec.CredentialsBindingName, ""))
	for _, resource := range s.Spec.Resources {
		node.Needs = append(node.Needs, crossRef(&resource.ResourceRef, s.Namespace)...)
	}
	if s.Spec.DNS != nil {
		for _, provider := range s.Spec.DNS.Providers {
			need(Secret, s.Namespace, ptr.Deref(provider.SecretName, ""))
			node.Needs = append(node.Needs, crossRef(provider.CredentialsRef, s.Namespace)...)
		}
	}
	if api := s.Spec.Kubernetes.KubeAPIServer; api != nil {
		if audit := api.AuditConfig; audit != nil && audit.AuditPolicy != nil && audit.AuditPolicy.ConfigMapRef != nil {
			need(ConfigMap, s.Namespace, audit.AuditPolicy.ConfigMapRef.Name)
		}
		if authentication := api.StructuredAuthentication; authentication != nil {
			need(ConfigMap, s.Namespace, authentication.ConfigMapName)
		}
		if authorization := api.StructuredAuthorization; authorization != nil {
			need(ConfigMap, s.Namespace, authorization.ConfigMapName)
			for _, kubeconfig := range authorization.Kubeconfigs {
				need(Secret, s.Namespace, kubeconfig.SecretName)
			}
		}
	}
	if len(node.Seeds) > 1 { // During a migration each side reads the other's Seed.
		for _, seed := range node.Seeds {
			need(Seed, "", seed)
		}
	}
	return node
}

func ofSeedSpec(spec *corev1beta1.SeedSpec) []Ref {
	var needs []Ref
	if b := spec.Backup; b != nil {
		needs = append(append(needs, objectRef(b.CredentialsRef, corev1beta1.GardenNamespace)...),
			secretRef(b.SecretRef, corev1beta1.GardenNamespace)...)
	}
	if p := spec.DNS.Provider; p != nil {
		needs = append(append(needs, objectRef(p.CredentialsRef, corev1beta1.GardenNamespace)...),
			secretRef(p.SecretRef, corev1beta1.GardenNamespace)...)
	}
	if spec.DNS.Internal != nil {
		needs = append(needs, objectRef(&spec.DNS.Internal.CredentialsRef, corev1beta1.GardenNamespace)...)
	}
	for i := range spec.DNS.Defaults {
		needs = append(needs, objectRef(&spec.DNS.Defaults[i].CredentialsRef, corev1beta1.GardenNamespace)...)
	}
	for i := range spec.Resources {
		needs = append(needs, crossRef(&spec.Resources[i].ResourceRef, corev1beta1.GardenNamespace)...)
	}
	return needs
}

// ofManagedSeed returns the relations of a ManagedSeed: the gardenlet that runs the Shoot installs a gardenlet in it,
// together with the Seed that this one registers.
func ofManagedSeed(m *seedmanagementv1alpha1.ManagedSeed) Node {
	node := Node{Needs: []Ref{{Seed, "", m.Name}}}
	if m.Spec.Shoot != nil {
		node.With = []Ref{{Shoot, m.Namespace, m.Spec.Shoot.Name}}
	}
	node.Needs = append(node.Needs, ofConfig(m.Spec.Gardenlet.Config)...)
	return node
}

// ofConfig is what the Seed in the configuration of a gardenlet needs.
func ofConfig(raw *runtime.RawExtension) []Ref {
	if raw == nil {
		return nil
	}
	var config struct {
		SeedConfig struct {
			Spec corev1beta1.SeedSpec `json:"spec"`
		} `json:"seedConfig"`
	}
	if err := json.Unmarshal(raw.Raw, &config); err != nil {
		return nil // Validation ensures that the configuration can be decoded; one that cannot has no needs.
	}
	return ofSeedSpec(&config.SeedConfig.Spec)
}

// referable lists the kinds that references may name, with their API groups.
var referable = map[Kind]string{
	Secret: "", ConfigMap: "", InternalSecret: corev1beta1.GroupName, WorkloadIdentity: securityv1alpha1.GroupName,
}

// objectRef converts a reference. Older references have no version, or not even a kind.
func objectRef(ref *corev1.ObjectReference, namespace string) []Ref {
	if ref == nil || ref.Name == "" {
		return nil
	}
	kind := Kind(ref.Kind)
	if kind == "" {
		kind = Secret
	}
	group, ok := referable[kind]
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); !ok || err != nil || ref.APIVersion != "" &&
		gv.Group != group {
		return nil
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	return []Ref{{kind, namespace, ref.Name}}
}

func crossRef(ref *autoscalingv1.CrossVersionObjectReference, namespace string) []Ref {
	if ref == nil {
		return nil
	}
	return objectRef(&corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}, namespace)
}

func secretRef(ref *corev1.SecretReference, namespace string) []Ref {
	if ref == nil {
		return nil
	}
	return objectRef(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: ref.Namespace, Name: ref.Name,
	}, namespace)
}

// names returns the distinct non-nil values.
func names(pointers ...*string) []string {
	var out []string
	for _, p := range pointers {
		if p != nil && *p != "" && (len(out) == 0 || out[0] != *p) {
			out = append(out, *p)
		}
	}
	return out
}
