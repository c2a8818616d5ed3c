package sim

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
)

// clusterScoped are the kinds without a namespace, by group.
var clusterScoped = map[string]sets.Set[string]{
	"": sets.New("Namespace", "Node", "PersistentVolume"),
	"core.gardener.cloud": sets.New("BackupBucket", "CloudProfile", "ControllerDeployment", "ControllerInstallation",
		"ControllerRegistration", "ExposureClass", "Project", "Seed"),
	"extensions.gardener.cloud": sets.New("BackupBucket", "BackupEntry", "Cluster"),
	"certificates.k8s.io":       sets.New("CertificateSigningRequest"),
	"rbac.authorization.k8s.io": sets.New("ClusterRole", "ClusterRoleBinding"),
	"storage.k8s.io":            sets.New("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"),
	"scheduling.k8s.io":         sets.New("PriorityClass"),
	"apiextensions.k8s.io":      sets.New("CustomResourceDefinition"),
	"apiregistration.k8s.io":    sets.New("APIService"),
	"admissionregistration.k8s.io": sets.New("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}

func namespaced(gvk schema.GroupVersionKind) bool { return !clusterScoped[gvk.Group].Has(gvk.Kind) }

// newMapper knows all kinds of the scheme.
func newMapper(scheme *runtime.Scheme) *meta.DefaultRESTMapper {
	m := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if scope := meta.RESTScopeNamespace; namespaced(gvk) {
			m.Add(gvk, scope)
		} else {
			m.Add(gvk, meta.RESTScopeRoot)
		}
	}
	return m
}

// mapper knows the kinds that have an API now.
type mapper struct {
	*meta.DefaultRESTMapper
	cluster *Cluster
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	for _, version := range versions {
		if err := m.cluster.defined(gk.WithVersion(version)); err != nil {
			return nil, err
		}
	}
	return m.DefaultRESTMapper.RESTMapping(gk, versions...)
}

// Scheme has all kinds of Kubernetes and of this project.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, corev1v1.AddToScheme, corev1beta1.AddToScheme, securityv1alpha1.AddToScheme,
		seedmanagementv1alpha1.AddToScheme, operationsv1alpha1.AddToScheme, extensionsv1alpha1.AddToScheme,
		resourcesv1alpha1.AddToScheme,
	} {
		must(add(scheme))
	}
	return scheme
}
